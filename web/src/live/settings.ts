// What a person can change about the search, and for which models.

/** Settings of a search as the server takes them; what is missing has its default. */
export type Settings = { kind?: string; [key: string]: string | number | undefined };

export interface Slider {
  key: string;
  title: string;
  about: string;
  low: number;
  high: number;
  step: number;
  /** What holds if nothing is set. */
  standard: number;
}

const LENGTH: Slider = {
  key: 'length_factor',
  title: 'Length',
  about: 'Relative to the length that the search itself would choose.',
  low: 0.5,
  high: 2,
  step: 0.05,
  standard: 1,
};
const TEMPERATURE: Slider = {
  key: 'temperature',
  title: 'Temperature',
  about: 'Below 1 the probable tokens are drawn more often, above 1 the others, too.',
  low: 0.1,
  high: 2,
  step: 0.05,
  standard: 1,
};
const TOP_P: Slider = {
  key: 'top_p',
  title: 'Nucleus',
  about: 'Draws from the fewest tokens that have this probability together.',
  low: 0.05,
  high: 1,
  step: 0.05,
  standard: 1,
};
const SEED: Slider = { key: 'seed', title: 'Seed', about: 'Another seed draws another sample.', low: 0, high: 20, step: 1, standard: 0 };

/** The sliders of each kind of search; a kind that is not here has none. */
export const SLIDERS: Record<string, Slider[]> = {
  greedy: [LENGTH],
  beam: [
    { key: 'size', title: 'Beam size', about: 'How many unfinished outputs are kept at each step.', low: 1, high: 16, step: 1, standard: 5 },
    LENGTH,
  ],
  sample: [TEMPERATURE, TOP_P, LENGTH, SEED],
  mbr: [
    { key: 'samples', title: 'Samples', about: 'The one that agrees best with all others is chosen.', low: 2, high: 16, step: 1, standard: 16 },
    TEMPERATURE,
    SEED,
  ],
  refine: [{ key: 'passes', title: 'Passes', about: 'How often all positions are filled; 1 is the fastest.', low: 1, high: 20, step: 1, standard: 10 }],
};

export const SEARCHES: Record<string, [string, string]> = {
  greedy: ['Greedy', 'The most probable token at each step.'],
  beam: ['Beam', 'Follows several outputs at once and chooses the best one as a whole.'],
  sample: ['Sampling', 'Draws each token by its probability.'],
  mbr: ['Minimum Bayes risk', 'Draws several outputs and chooses the one that agrees with the others.'],
  refine: ['Refinement', 'Writes all positions at once and improves them pass by pass.'],
  speculative: ['Speculative', 'A draft is verified several tokens at a time; the output is that of greedy search.'],
};

/** What the settings need to know about a model. */
export interface Searched {
  searches: string[];
  search: { [key: string]: unknown };
}

/** Most that a server allows; a slider ends there. */
export interface Most {
  beam: number;
  passes: number;
}

/** The kinds that a person can choose for a model: those that need nothing more. */
export function kindsOf(model: Searched): string[] {
  return Object.keys(SEARCHES).filter((kind) => model.searches.includes(kind));
}

export function kindOf(settings: Settings, model: Searched): string {
  return settings.kind ?? String(model.search.kind);
}

export function slidersOf(settings: Settings, model: Searched, most: Most): Slider[] {
  const kind = kindOf(settings, model);
  const limits: Record<string, number> = { size: most.beam, samples: most.beam, passes: most.passes };
  return (SLIDERS[kind] ?? []).map((slider) => {
    const own = kind === model.search.kind ? model.search[slider.key] : undefined;
    const high = Math.min(slider.high, limits[slider.key] ?? slider.high);
    const standard = typeof own === 'number' ? own : slider.standard;
    return { ...slider, high, standard: Math.min(Math.max(standard, slider.low), high) };
  });
}

/** Of settings from an address or of another model: those that make sense for this one, without what is its default. */
export function sensible(given: unknown, model: Searched, most: Most): Settings {
  if (typeof given !== 'object' || given === null) return {};
  const found = given as Record<string, unknown>;
  const wanted = found.kind ?? model.search.kind;
  const known = typeof wanted === 'string' && kindsOf(model).includes(wanted);
  const kind = known ? wanted : String(model.search.kind);
  const made: Settings = kind === model.search.kind ? {} : { kind };
  if (!known) return made;
  for (const { key, low, high, standard } of slidersOf({ kind }, model, most)) {
    const value = found[key];
    if (typeof value === 'number' && value >= low && value <= high && value !== standard) made[key] = value;
  }
  return made;
}

/** In a few words: "Beam 5". */
export function summary(settings: Settings, model: Searched, most: Most): [string, string] {
  const kind = kindOf(settings, model);
  const [first] = slidersOf(settings, model, most);
  const counted = ['size', 'samples', 'passes', 'temperature'].includes(first?.key ?? '');
  return [SEARCHES[kind]?.[0] ?? kind, counted ? String(settings[first.key] ?? first.standard) : ''];
}

/** How many outputs a search can give of those that are wanted. */
export function outputsOf(settings: Settings, model: Searched, most: Most, wanted: number): number {
  const kind = kindOf(settings, model);
  if (kind === 'sample') return Math.min(wanted, most.beam);
  const [slider] = slidersOf(settings, model, most);
  return kind === 'beam' || kind === 'mbr' ? Math.min(wanted, Number(settings[slider.key] ?? slider.standard)) : 1;
}

/** The fields of a request that say how to search, and for how many outputs. */
export function searching(settings: Settings, model: Searched, most: Most, wanted: number): { nbest?: number; search?: Settings } {
  const search = sensible(settings, model, most);
  const nbest = outputsOf(search, model, most, wanted);
  if (nbest > 1 && kindOf(search, model) === 'sample') search.samples = nbest;
  return { ...(nbest > 1 ? { nbest } : {}), ...(Object.keys(search).length ? { search } : {}) };
}
