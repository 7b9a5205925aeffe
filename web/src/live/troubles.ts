import type { Trouble } from './api';

/** What the page says about each. */
export const SAID: Record<Trouble, string> = {
  busy: 'The server is busy.',
  gone: 'The server does not answer. Is it still running?',
  key: 'The server wants a key.',
  draining: 'The server is shutting down and takes no more texts.',
  restarting: 'A worker of the server is being replaced.',
  slow: 'This took longer than the server allows. A shorter text or a smaller beam is faster.',
  wrong: 'The server does not take this.',
  failed: 'The server failed at this text.',
};

/** Those that are worth another try by itself. */
export const WAITING: Trouble[] = ['busy', 'gone', 'draining', 'restarting'];
