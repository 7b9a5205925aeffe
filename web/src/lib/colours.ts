import { interpolateLab } from 'd3-interpolate';
import { scaleLinear, scaleSequential } from 'd3-scale';
import type { Side } from '../data/record';

export type Shade = (value: number) => string;

const SURFACE = { light: '#ffffff', dark: '#16181d' };
const STRONG: Record<Side, { light: string; dark: string }> = {
  encoder: { light: '#0b4a8f', dark: '#8cc4ff' },
  decoder: { light: '#0d5c38', dark: '#79dba7' },
  cross: { light: '#9a3f00', dark: '#ffb26b' },
};
const LOW = { light: '#1f5fb0', dark: '#6fb1f5' };
const HIGH = { light: '#b3361b', dark: '#ff9a7d' };
/** One for each head; readable on both grounds and for the colour-blind. */
const HEADS = {
  light: ['#0072b2', '#b34700', '#00795a', '#a8327d', '#6b5b00', '#5a4fcf', '#007a8a', '#8a1c1c'],
  dark: ['#56b4e9', '#f5a15c', '#3fd0a2', '#f09fcb', '#e3d15b', '#aaa2ff', '#5fd8e8', '#ff9d9d'],
};

const theme = (dark: boolean) => (dark ? 'dark' : 'light');

/** Weights 0 to 1 by the lightness of the side's hue; the square root shows small ones, too. */
export function weightShade(side: Side, dark: boolean): Shade {
  const shade = scaleSequential(interpolateLab(SURFACE[theme(dark)], STRONG[side][theme(dark)])).domain([0, 1]).clamp(true);
  return (value) => shade(Math.sqrt(value));
}

/** Numbers around 0: blue below, red above. */
export function signedShade(largest: number, dark: boolean): Shade {
  const most = largest || 1;
  return scaleLinear<string>()
    .domain([-most, 0, most])
    .range([LOW[theme(dark)], SURFACE[theme(dark)], HIGH[theme(dark)]])
    .interpolate(interpolateLab)
    .clamp(true);
}

export function sideColour(side: Side, dark: boolean): string {
  return STRONG[side][theme(dark)];
}

/** The hue of a side, the stronger the deeper the layer. */
export function depthColour(side: Side, layer: number, layers: number, dark: boolean): string {
  const from = interpolateLab(SURFACE[theme(dark)], STRONG[side][theme(dark)])(0.45);
  return interpolateLab(from, STRONG[side][theme(dark)])(layers > 1 ? layer / (layers - 1) : 1);
}

export function headColour(head: number, dark: boolean): string {
  const colours = HEADS[theme(dark)];
  return colours[head % colours.length];
}

/** Black or white, whichever is easier to read on a colour rgb(r, g, b). */
export function inkOn(colour: string): string {
  const [r, g, b] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  const linear = [r, g, b].map((each) => ((each / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.19 ? '#000' : '#fff';
}
