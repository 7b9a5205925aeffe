// The page of `qkv serve`: an HTML file with a script and a style sheet beside it, under a policy that allows no others.
import type { Plugin } from 'vite';

export const INDEX = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>qkv</title>
<link rel="icon" href="page/icon.svg">
<link rel="stylesheet" href="page/live.css">
<script type="module" src="page/live.js"></script>
</head>
<body>
<div id="app"></div>
<noscript>This page draws with JavaScript, which is switched off. The server answers all the same: see /spec.</noscript>
</body>
</html>
`;

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f5fb0"/><path d="M7 9h18M7 16h11M7 23h14" stroke="#fff" stroke-width="3.4" stroke-linecap="round"/></svg>
`;

/** Adds what the bundler does not write. */
export function livePage(): Plugin {
  return {
    name: 'live-page',
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: 'index.html', source: INDEX });
      this.emitFile({ type: 'asset', fileName: 'icon.svg', source: ICON });
    },
  };
}
