// The call that gives what is on the screen, in three languages.
import type { TranslateRequest } from './api';

type Plain = string | number | boolean | null | undefined | Plain[] | { [key: string]: Plain };

function inPython(value: Plain): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`);
  if (Array.isArray(value)) return `[${value.map(inPython).join(', ')}]`;
  if (typeof value === 'object')
    return `{${Object.entries(value)
      .map(([key, each]) => `${JSON.stringify(key)}: ${inPython(each)}`)
      .join(', ')}}`;
  return String(value);
}

const inShell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

export interface Calls {
  curl: string;
  python: string;
  javascript: string;
}

export function calls(origin: string, request: TranslateRequest, key: boolean): Calls {
  const { texts, ...options } = request;
  const body = JSON.stringify(request);
  const curl = [
    `curl ${inShell(`${origin}/v1/translate`)}`,
    `-H 'Content-Type: application/json'`,
    ...(key ? [`-H "Authorization: Bearer $QKV_KEY"`] : []),
    `-d ${inShell(body)}`,
  ].join(' \\\n  ');
  const given = Object.entries(options).map(([name, value]) => `    ${name}=${inPython(value as Plain)},\n`);
  const python = `${key ? 'import os\n\n' : ''}from qkv.client import Client

with Client(${inPython(origin)}${key ? ', api_key=os.environ["QKV_KEY"]' : ''}) as client:
    found = client.decode(
        ${inPython(texts)},
${given.map((line) => `    ${line}`).join('')}    )
print(found[0]["text"])
`;
  const headers = `{ 'Content-Type': 'application/json'${key ? ', Authorization: `Bearer ${key}`' : ''} }`;
  const javascript = `const answer = await fetch(${JSON.stringify(`${origin}/v1/translate`)}, {
  method: 'POST',
  headers: ${headers},
  body: JSON.stringify(${JSON.stringify(request, null, 2).replaceAll('\n', '\n  ')}),
});
const { translations } = await answer.json();
console.log(translations[0].text);
`;
  return { curl, python, javascript };
}
