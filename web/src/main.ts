import { mount } from 'svelte';
import App from './App.svelte';
import { type PageData, layersOf, readRecord, sidesOf } from './data/record';
import { type PackedRun, readRun } from './data/run';
import { language, t } from './lib/language.svelte';
import { START, fitted, parsed, selection } from './lib/selection.svelte';
import RunApp from './run/RunApp.svelte';
import './style.css';

interface RunsData {
  format: number;
  runs: PackedRun[];
}

async function show(target: HTMLElement, data: PageData | RunsData | null): Promise<void> {
  if (!data) {
    target.textContent = t('This page holds no sentence; write one by: qkv see MODEL "text"');
    return;
  }
  if ('runs' in data) {
    const runs = await Promise.all(data.runs.map(readRun));
    document.title = `${runs.map((run) => run.name).join(', ')} – qkv see`;
    mount(RunApp, { target, props: { runs } });
    return;
  }
  const records = await Promise.all(data.records.map(readRecord));
  const first = records[0];
  const side = sidesOf(first).at(-1) ?? 'cross';
  const start = { ...START, side, layer: Math.max(0, layersOf(first, side).length - 1) };
  selection.now = fitted(parsed(location.hash, start), first);
  document.title = `${first.text} – ${first.model.name} – qkv see`;
  mount(App, { target, props: { records } });
}

if (navigator.language.startsWith('zh')) language.now = 'zh';
const target = document.getElementById('app') as HTMLElement;
const data = JSON.parse(document.getElementById('data')?.textContent ?? 'null') as PageData | RunsData | null;
show(target, data).catch((error: unknown) => {
  target.textContent = t('The data of this page cannot be read: {why}', { why: String(error) });
});
