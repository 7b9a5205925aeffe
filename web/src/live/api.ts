// The client of `qkv serve`. Its types are generated from the server's own description: see schema.ts.
import type { PackedRecord } from '../data/record';
import type { components } from './schema';

type Schemas = components['schemas'];
export type TranslateRequest = Schemas['TranslateRequest'];
export type TranslateResponse = Schemas['TranslateResponse'];
export type SeeRequest = Schemas['SeeRequest'];
export type Translation = Schemas['TranslationOutput'];
export type ServedModel = Schemas['ModelInfo'];
export type ServerInfo = Schemas['ServerInfo'];

/** What the page says plainly: wait, enter a key, mend the request, or the server is not there. */
export type Trouble = 'busy' | 'gone' | 'key' | 'draining' | 'restarting' | 'slow' | 'wrong' | 'failed';

export class Refused extends Error {
  constructor(
    readonly trouble: Trouble,
    message: string,
    /** After how many seconds it is worth trying again; 0: it is not. */
    readonly seconds = 0,
  ) {
    super(message);
  }
}

function troubleOf(status: number, message: string): Trouble {
  if (status === 429) return 'busy';
  if (status === 403) return 'key';
  if (status === 503) return message.includes('shutting down') ? 'draining' : 'restarting';
  if (status === 504) return 'slow';
  return status >= 500 ? 'failed' : 'wrong';
}

async function refusal(answer: Response): Promise<Refused> {
  let message = answer.statusText;
  try {
    message = String(((await answer.json()) as { error?: unknown }).error ?? message);
  } catch {
    // Not every proxy answers in JSON.
  }
  const after = Number(answer.headers.get('retry-after') ?? 0);
  return new Refused(troubleOf(answer.status, message), message, Number.isFinite(after) ? Math.min(Math.max(after, 0), 3600) : 0);
}

export class Client {
  key = '';

  constructor(private readonly send: typeof fetch = (...given) => fetch(...given)) {}

  async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.key) headers.set('Authorization', `Bearer ${this.key}`);
    let answer: Response;
    try {
      answer = await this.send(path, { ...init, headers, credentials: 'omit', redirect: 'error' });
    } catch (error) {
      if (error instanceof DOMException && error.name === 'AbortError') throw error;
      throw new Refused('gone', String(error), 2);
    }
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }

  private async json<Answer>(path: string, init?: RequestInit): Promise<Answer> {
    return (await (await this.ask(path, init)).json()) as Answer;
  }

  private post<Answer>(path: string, body: unknown, signal?: AbortSignal): Promise<Answer> {
    const headers = { 'Content-Type': 'application/json' };
    return this.json(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
  }

  server(): Promise<ServerInfo> {
    return this.json('v1/server');
  }

  translate(request: TranslateRequest, signal?: AbortSignal): Promise<TranslateResponse> {
    return this.post('v1/translate', request, signal);
  }

  async see(request: SeeRequest, signal?: AbortSignal): Promise<PackedRecord> {
    return (await this.post<{ records: PackedRecord[] }>('v1/see', request, signal)).records[0];
  }

  /** The address of the translated file, on this server. */
  async file(file: File, source: string, target: string, signal?: AbortSignal): Promise<string> {
    const body = new FormData();
    body.append('source', source);
    body.append('target', target);
    body.append('file', file);
    const made = await this.json<{ translatedFileUrl: string }>('translate_file', { method: 'POST', body, signal });
    return new URL(made.translatedFileUrl, location.href).pathname;
  }
}
