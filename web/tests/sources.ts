// What the sources of the pages say: texts that they translate, and texts that they forget to translate.
import { readFileSync, readdirSync } from 'node:fs';
import { parse } from 'svelte/compiler';

interface Node {
  type: string;
  [key: string]: unknown;
}

export interface Said {
  translated: Set<string>;
  forgotten: string[];
}

/** Attributes that a person reads or hears; those of components are written by them. */
const SPOKEN = ['aria-label', 'title', 'placeholder', 'alt', 'unit', 'name'];
/** Mathematics, units and names are the same in every language. */
const SAME = /\b(softmax|[Cc]oncat|head|norm|log p|FFN|qkv|px|ms|W_o|English)\b/g;

const isNode = (found: unknown): found is Node => typeof found === 'object' && found !== null && typeof (found as Node).type === 'string';
const children = (node: Node) => Object.values(node).flat().filter(isNode);
const hasWords = (text: string) => /[A-Za-z]{2}/.test(text.replace(SAME, ''));

/** The literal texts that an expression may give. */
function literals(node: Node): string[] {
  if (node.type === 'Literal') return typeof node.value === 'string' && node.value ? [node.value] : [];
  if (node.type === 'TemplateLiteral') return (node.quasis as { value: { raw: string } }[]).map((each) => each.value.raw);
  if (node.type === 'ConditionalExpression') return [node.consequent, node.alternate].filter(isNode).flatMap(literals);
  if (node.type === 'LogicalExpression') return [node.left, node.right].filter(isNode).flatMap(literals);
  return [];
}

/** The texts of all calls of t() in a tree. */
function translations(node: Node): string[] {
  const own = node.type === 'CallExpression' && (node.callee as Node).name === 't' ? literals((node.arguments as Node[])[0]) : [];
  return [...own, ...children(node).flatMap(translations)];
}

/** The literal texts of an attribute's value. */
function texts(attribute: Node): string[] {
  return [attribute.value].flat().filter(isNode).flatMap((part) => (part.type === 'Text' ? [String(part.data)] : literals(part.expression as Node)));
}

function walk(node: Node, made: Said): void {
  if (['pre', 'code'].includes(String(node.name))) return;
  if (node.type === 'Text') made.forgotten.push(String(node.data));
  else if (node.type === 'ExpressionTag') made.forgotten.push(...literals(node.expression as Node));
  for (const attribute of (node.attributes as Node[]) ?? []) {
    if (node.name === 'Sentence' && attribute.name === 'text') texts(attribute).forEach((text) => made.translated.add(text));
    else if (SPOKEN.includes(String(attribute.name))) made.forgotten.push(...texts(attribute));
  }
  // Attributes that only machines read have words, too.
  children({ ...node, attributes: [] }).forEach((each) => walk(each, made));
}

/** Of one component. */
export function saidBy(source: string): Said {
  const tree = parse(source, { modern: true }) as unknown as { fragment: Node; instance: Node | null };
  const made: Said = { translated: new Set([tree.fragment, ...(tree.instance ? [tree.instance] : [])].flatMap(translations)), forgotten: [] };
  walk(tree.fragment, made);
  made.forgotten = made.forgotten.filter(hasWords);
  return made;
}

/** Of all components and modules. */
export function said(): Said {
  const root = new URL('../src/', import.meta.url).pathname;
  const all: Said = { translated: new Set(), forgotten: [] };
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    const source = /\.(svelte|ts)$/.test(file) ? readFileSync(root + file, 'utf8') : '';
    if (file.endsWith('.ts')) for (const [, quote, text] of source.matchAll(/\bt\((['"])((?:\\.|(?!\1).)*)\1/g)) all.translated.add(text.replaceAll(`\\${quote}`, quote));
    if (!file.endsWith('.svelte')) continue;
    const { translated, forgotten } = saidBy(source);
    translated.forEach((text) => all.translated.add(text));
    all.forgotten.push(...forgotten.map((text) => `${file}: ${text.trim()}`));
  }
  return all;
}
