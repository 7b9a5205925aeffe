import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { inkOn, weightShade } from '../src/lib/colours';
import { extent, fewTicks, nearest, tick, valueAt } from '../src/lib/charts';
import { placeOf } from '../src/data/run';
import { digits, percent } from '../src/lib/numbers';
import { inert, page } from '../standalone';

describe('numbers', () => {
  it('have three significant digits', () => {
    expect([0, 1, 0.1234, 12.345, 123.45, -0.5, 0.00012, 123456, -4.4e-7].map(digits)).toEqual(
      ['0', '1.00', '0.123', '12.3', '123', '−0.500', '1.2e−4', '1.23e+5', '−4.4e−7'],
    );
    expect([1, 0.123, 0.0001].map(percent)).toEqual(['100 %', '12.3 %', '< 0.1 %']);
  });
});

describe('colours', () => {
  it('get darker with the weight, and ink stays readable', () => {
    const shade = weightShade('cross', false);
    expect(shade(0)).toBe('rgb(255, 255, 255)');
    expect(inkOn(shade(0))).toBe('#000');
    expect(inkOn(shade(1))).toBe('#fff');
  });
});

describe('the built page', () => {
  it('allows its own script and style by their hashes only', () => {
    const made = page('let a = 1;', 'p{}');
    const hash = createHash('sha256').update('let a = 1;').digest('base64');
    expect(made).toContain(`script-src 'sha256-${hash}'`);
    expect(made).not.toContain('unsafe');
    expect(inert('"</script><!--"')).not.toMatch(/<\/script|<!--/);
  });
});

describe('charts', () => {
  it('have few ticks, and read the value that was last known', () => {
    expect(fewTicks([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 3])).toEqual([0.1, 0.2, 0.5, 1, 2]);
    expect(fewTicks([1, 2, 3])).toEqual([1, 2, 3]);
    expect([0, 0.002, 0.0001, 1500, 20000, -0.5].map(tick)).toEqual(['0', '0.002', '0.0001', '1,500', '20k', '−0.5']);
    expect(extent([3, 3])).toEqual([1.5, 4.5]);
    expect(extent([0, -1, 10], true)).toEqual([5, 20]);
    expect(valueAt([[10, 1], [20, 2]], 15)).toBe(1);
    expect(valueAt([[10, 1]], 5)).toBeNull();
    expect(nearest([10, 20, 30], 26)).toBe(2);
  });
  it('know the place of a layer in the model', () => {
    expect(placeOf('encoder.layers.2')).toEqual({ side: 'encoder', number: 2 });
    expect(placeOf('layers.0')).toEqual({ side: 'decoder', number: 0 });
    expect(placeOf('head')).toEqual({ side: 'other', number: null });
  });
});
