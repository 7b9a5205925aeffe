import { describe, expect, it } from 'vitest';
import { START } from '../src/lib/selection.svelte';
import { fromAddress, toAddress } from '../src/live/address';
import { choice, distinct } from '../src/live/alternatives';
import { Client, Refused, type Translation } from '../src/live/api';
import { calls } from '../src/live/code';
import { added } from '../src/live/past';
import { kindsOf, searching, sensible, slidersOf, summary } from '../src/live/settings';
import { changes, copied, looks, placed, probability, units } from '../src/live/units';

const TOKENS = ['▁The', '▁cat', '▁sat', '▁on', '▁my', '▁sister', "'", 's', '▁chair', '.'];
const TEXT = "The cat sat on my sister's chair.";
const words = (tokens: string[], text: string) => units(tokens, text).map((unit) => text.slice(unit.start, unit.end));

describe('words', () => {
  it('are made of tokens, with marks of their own', () => {
    expect(words(TOKENS, TEXT)).toEqual(['The', 'cat', 'sat', 'on', 'my', "sister's", 'chair', '.']);
    expect(units(TOKENS, TEXT)[5]).toMatchObject({ from: 5, to: 8 });
    expect(words(['un', '##able', 'to'], 'unable to')).toEqual(['unable', 'to']);
    expect(words(['un@@', 'able'], 'unable')).toEqual(['unable']);
    expect(words(['AH0', 'K', 'R'], 'AH0 K R')).toEqual(['AH0', 'K', 'R']);
  });
  it('of scripts without spaces are the tokens', () => {
    expect(words(['▁我', '喜欢', '读', '书', '。'], '我喜欢读书。')).toEqual(['我', '喜欢', '读', '书', '。']);
    expect(words(['▁مرحبا', '▁بالعالم'], 'مرحبا بالعالم')).toEqual(['مرحبا', 'بالعالم']);
  });
  it('hold the tokens that do not stand in the text', () => {
    const own = units(['▁a', '<0xF0>', '<0x9F>', '▁b', '</s>'], 'a 🙂 b');
    expect(own.map(({ from, to }) => [from, to])).toEqual([[0, 1], [1, 4]]);
    expect(placed(['</s>'], 'abc')).toEqual([{ start: 0, end: 0 }]);
    expect(units([], '')).toEqual([]);
  });
  it('have a probability, and look at words of the source', () => {
    const [first, second] = units(['▁a', 'b', '▁c'], 'ab c');
    expect(probability(first, [Math.log(0.5), Math.log(0.5), 0])).toBeCloseTo(0.25);
    expect(probability(second, [0])).toBeNull();
    const source = units(['▁x', '▁y', 'z'], 'x yz');
    expect(looks(first, [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]], source)).toEqual([0.5, 0.5]);
  });
  it('that stand in the source are copies', () => {
    const own = units(['▁Tom', '▁told', '▁me', '▁7'], 'Tom told me 7');
    expect(own.map((unit) => copied(unit, 'Tom told me 7', 'Tom me dijo 7.'))).toEqual([true, false, false, true]);
  });
  it('that changed are marked', () => {
    const kinds = changes('the cat sat', 'the dog sat down').map(({ text, kind }) => `${kind} ${text}`);
    expect(kinds).toEqual(['same the', 'gone cat', 'new dog', 'same sat', 'new down']);
  });
});

function translation(tokens: string[], text: string, scores: number[]): Translation {
  return { text, score: 0, tokens, token_scores: scores, truncated: false, parts: 1, split_at: null, src_tokens: [], unknown: [], alternatives: [] };
}

describe('alternatives', () => {
  const found = choice(translation(['▁the', '▁car', 'pet', '.'], 'the carpet.', [0, 0, Math.log(0.5), 0]), 1, { token: '▁car', probability: 0.4 }, 'rug');
  it('are whole words with their probability', () => {
    expect(found).toMatchObject({ word: 'carpet', rest: '.', begin: ['▁the', '▁car', 'pet'], taken: false });
    expect(found.probability).toBeCloseTo(0.2);
  });
  it('hold the end of the sentence', () => {
    expect(choice(translation(['▁the'], 'the', [0]), 1, { token: '</s>', probability: 0.1 }, 'rug')).toMatchObject({ word: '', begin: ['▁the', '</s>'] });
  });
  it('are distinct, the most probable first', () => {
    const other = { ...found, probability: 0.6 };
    expect(distinct([found, { ...found, word: 'mat', probability: 0.3 }, other])).toMatchObject([{ word: 'carpet', probability: 0.6 }, { word: 'mat' }]);
  });
});

const BEAM = { searches: ['beam', 'greedy', 'sample', 'mbr', 'unknown'], search: { kind: 'beam', size: 4, length_factor: 1 } };
const REFINE = { searches: ['refine'], search: { kind: 'refine' } };
const MOST = { beam: 8, passes: 12 };

describe('settings', () => {
  it('are those that the model can do', () => {
    expect(kindsOf(BEAM)).toEqual(['greedy', 'beam', 'sample', 'mbr']);
    expect(kindsOf(REFINE)).toEqual(['refine']);
    expect(slidersOf({}, BEAM, MOST)[0]).toMatchObject({ key: 'size', high: 8, standard: 4 });
    expect(slidersOf({}, REFINE, MOST)[0]).toMatchObject({ key: 'passes', high: 12 });
    expect(summary({ size: 7 }, BEAM, MOST)).toEqual(['Beam', '7']);
  });
  it('that are the default, out of range or nonsense are not sent', () => {
    expect(sensible({ kind: 'beam', size: 4 }, BEAM, MOST)).toEqual({});
    expect(sensible({ kind: 'beam', size: 6, seed: 1 }, BEAM, MOST)).toEqual({ size: 6 });
    expect(sensible({ size: 99 }, BEAM, MOST)).toEqual({});
    expect(sensible({ kind: 'sample', temperature: 0.5, size: 3 }, BEAM, MOST)).toEqual({ kind: 'sample', temperature: 0.5 });
    for (const bad of [null, 3, [], { kind: 'refine', passes: 2 }, { kind: 7 }, { kind: '__proto__' }, { size: '6' }]) expect(sensible(bad, BEAM, MOST)).toEqual({});
  });
});

describe('a request', () => {
  it('asks for as many outputs as its search can give', () => {
    expect(searching({}, BEAM, MOST, 3)).toEqual({ nbest: 3 });
    expect(searching({ size: 2 }, BEAM, MOST, 3)).toEqual({ nbest: 2, search: { size: 2 } });
    expect(searching({ kind: 'greedy' }, BEAM, MOST, 3)).toEqual({ search: { kind: 'greedy' } });
    expect(searching({ kind: 'sample' }, BEAM, MOST, 3)).toEqual({ nbest: 3, search: { kind: 'sample', samples: 3 } });
    expect(searching({ kind: 'sample' }, BEAM, MOST, 1)).toEqual({ search: { kind: 'sample' } });
    expect(searching({ passes: 2 }, REFINE, MOST, 3)).toEqual({ search: { passes: 2 } });
  });
});

describe('the address', () => {
  const shown = {
    text: 'a & b = "ñ" <script>\n#?%',
    outputs: 5,
    columns: [
      { model: 'es-en', search: { kind: 'sample', temperature: 0.5 }, begin: ['▁The', '"'] },
      { model: 'other', search: {}, begin: [] },
    ],
    selected: { ...START, view: 'matrix' as const, head: 2 },
  };
  it('brings everything back', () => {
    expect(fromAddress(`#${toAddress(shown)}`, START)).toEqual(shown);
    const plain = { text: '', outputs: 3, columns: [{ model: 'm', search: {}, begin: [] }], selected: START };
    expect(fromAddress(`#${toAddress(plain)}`, START)).toEqual(plain);
  });
  it('that makes no sense is empty', () => {
    for (const hash of ['', '#', '#search={&begin=[1]&outputs=99&view=x', '#search=[]&begin={}', '#%00&outputs=NaN', `#begin=${JSON.stringify(Array(999).fill('a'))}`])
      expect(fromAddress(hash, START)).toEqual({ text: '', outputs: 3, columns: [{ model: '', search: {}, begin: [] }], selected: START });
    expect(fromAddress(`#text=${'a'.repeat(9999)}`, START).text).toHaveLength(5000);
  });
});

describe('calls', () => {
  it('escape what a text may hold', () => {
    const made = calls('http://localhost:5000', { texts: ["it's $HOME `x` \\ \u2028"], model: 'm', alignment: true }, true);
    expect(made.curl).toContain("it'\\''s $HOME `x`");
    expect(made.curl).toContain('Bearer $QKV_KEY');
    expect(made.python).toContain('["it\'s $HOME `x` \\\\ \\u2028"]');
    expect(made.python).toContain('alignment=True');
    expect(made.javascript).toContain('"alignment": true');
  });
});

describe('history', () => {
  const one = (text: string, at = 0, model = 'm') => ({ text, output: '', model, at });
  it('keeps a text that is being typed once', () => {
    expect(added([one('Me')], one('Me gusta', 1000))).toHaveLength(1);
    expect(added([one('Me')], one('Me gusta', 99_000))).toHaveLength(2);
    expect(added([one('b'), one('a')], one('a', 99_000)).map(({ text }) => text)).toEqual(['a', 'b']);
    expect(added(Array.from({ length: 60 }, (_, i) => one(`t${i}`)), one('x', 99_000))).toHaveLength(50);
  });
});

describe('the client', () => {
  const answering = (status: number, body: string, headers = {}) => new Client(async () => new Response(body, { status, headers }));
  const trouble = async (client: Client) => client.server().catch((error: unknown) => error as Refused);
  it('says what is the matter', async () => {
    expect(await trouble(answering(429, '{"error":"Slowdown"}', { 'Retry-After': '7' }))).toMatchObject({ trouble: 'busy', seconds: 7, message: 'Slowdown' });
    expect(await trouble(answering(403, '{"error":"Invalid API key"}'))).toMatchObject({ trouble: 'key' });
    expect(await trouble(answering(503, '{"error":"the server is shutting down"}'))).toMatchObject({ trouble: 'draining' });
    expect(await trouble(answering(503, '<html>'))).toMatchObject({ trouble: 'restarting' });
    expect(await trouble(answering(504, '{}'))).toMatchObject({ trouble: 'slow' });
    expect(await trouble(answering(400, '{"error":"<b>"}'))).toMatchObject({ trouble: 'wrong', message: '<b>' });
    expect(await trouble(answering(500, '{}', { 'Retry-After': 'soon' }))).toMatchObject({ trouble: 'failed', seconds: 0 });
    expect(await trouble(new Client(async () => Promise.reject(new TypeError('no'))))).toMatchObject({ trouble: 'gone' });
  });
  it('sends its key, and no cookies', async () => {
    let sent: RequestInit = {};
    const client = new Client(async (_, init) => {
      sent = init ?? {};
      return new Response('{}');
    });
    client.key = 'k';
    await client.translate({ texts: ['a'] });
    expect(new Headers(sent.headers).get('authorization')).toBe('Bearer k');
    expect(sent.credentials).toBe('omit');
  });
  it('passes a cancelled request on', async () => {
    const stop = new AbortController();
    stop.abort();
    const client = new Client(async () => Promise.reject(new DOMException('', 'AbortError')));
    await expect(client.translate({ texts: ['a'] }, stop.signal)).rejects.toThrow(DOMException);
  });
});
