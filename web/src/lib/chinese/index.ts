/** The interface in Chinese: what stands in the sources, and how it is said. A test finds what is missing. */
import { OF_THE_PAGE } from './page';
import { OF_RUNS } from './runs';
import { OF_THE_VIEWS } from './views';

export const CHINESE: Record<string, string> = { ...OF_THE_PAGE, ...OF_THE_VIEWS, ...OF_RUNS };
