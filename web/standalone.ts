// One HTML file: script and style inlined, and a content security policy that allows these two and nothing else.
import { createHash } from 'node:crypto';
import type { Plugin } from 'vite';

function hash(content: string): string {
  return `'sha256-${createHash('sha256').update(content).digest('base64')}'`;
}

export function policy(script: string, style: string): string {
  return [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

export function page(script: string, style: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy(script, style)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>qkv see</title>
<style>${style}</style>
</head>
<body>
<div id="app"></div>
<noscript>This page draws with JavaScript, which is switched off.</noscript>
<script type="application/json" id="data">null</script>
<script type="module">${script}</script>
</body>
</html>
`;
}

/** What would end a script element early. */
export function inert(script: string): string {
  return script.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
}

export function standalone(file: string): Plugin {
  return {
    name: 'standalone',
    enforce: 'post',
    generateBundle(_options, bundle) {
      let script = '';
      let style = '';
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === 'chunk') script += part.code;
        else if (name.endsWith('.css')) style += part.source;
        delete bundle[name];
      }
      this.emitFile({ type: 'asset', fileName: file, source: page(inert(script), style) });
    },
  };
}
