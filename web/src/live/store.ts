// What stays in this browser. It may be full, or forbidden: then nothing stays.

export function kept<Value>(name: string, otherwise: Value, isValue: (found: unknown) => found is Value, store = localStorage): Value {
  try {
    const found: unknown = JSON.parse(store.getItem(`qkv.${name}`) ?? 'null');
    return isValue(found) ? found : otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name: string, value: unknown, store = localStorage): void {
  try {
    store.setItem(`qkv.${name}`, JSON.stringify(value));
  } catch {
    // Private windows have no room.
  }
}

export function forget(name: string, store = localStorage): void {
  try {
    store.removeItem(`qkv.${name}`);
  } catch {
    // There is nothing to forget.
  }
}
