/** The keys of the page, besides those of the views. */
export const PAGE_KEYS: [string, string][] = [
  ['/', 'type'],
  ['← → ↓', 'the words of the translation; what else could stand there'],
  ['Esc', 'close what is open'],
];
