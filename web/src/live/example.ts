// A sentence that was translated beforehand, to be shown before the server's model is loaded.
import { type PackedRecord, type SeenRecord, readRecord } from '../data/record';
import type { Translation } from './api';

export interface Example {
  text: string;
  model: string;
  answer: Translation;
  record: SeenRecord;
}

export async function loadExample(): Promise<Example | null> {
  try {
    const found = (await (await fetch('page/example.json')).json()) as Omit<Example, 'record'> & { record: PackedRecord };
    return { ...found, record: await readRecord(found.record) };
  } catch {
    return null;
  }
}
