import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { inkOn, weightShade } from '../src/lib/colours';
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
