// What is on the screen: a text, and one or two columns that translate it, each with its model and its search.
import { type SeenRecord, readRecord } from '../data/record';
import { Client, Refused, type SeeRequest, type ServedModel, type ServerInfo, type TranslateRequest, type Translation } from './api';
import { type Settings, searching } from './settings';

/** Milliseconds between two questions whether the server is ready. */
const WARMING = 500;

function refused(error: unknown): Refused {
  return error instanceof Refused ? error : new Refused('failed', String(error));
}

/** One model with one search, and what it says about the text. */
export class Column {
  model: string = $state('');
  search: Settings = $state.raw({});
  /** The tokens that the output must begin with, chosen by a person. */
  begin: string[] = $state.raw([]);
  answer: Translation | null = $state.raw(null);
  /** How many tokens of the answer were chosen by a person. */
  kept: number = $state(0);
  /** What the answer translates. */
  of: string = $state('');
  engine: string = $state('');
  milliseconds: number = $state(0);
  /** The time in the server. */
  seconds: number = $state(0);
  waiting: boolean = $state(false);
  trouble: Refused | null = $state.raw(null);
  /** The output before the settings were changed. */
  before: string = $state('');
  record: SeenRecord | null = $state.raw(null);
  /** Why there is no record. */
  blind: Refused | null = $state.raw(null);
  private running: AbortController | null = null;
  private looking: AbortController | null = null;

  constructor(
    private readonly client: Client,
    private readonly session: Session,
  ) {}

  get served(): ServedModel | undefined {
    return this.session.models.find((each) => each.name === this.model);
  }

  private searching(outputs: number): Pick<TranslateRequest, 'nbest' | 'search'> {
    const { served, session } = this;
    return served && session.info ? searching(this.search, served, session.info.limits, outputs) : {};
  }

  request(text: string): TranslateRequest {
    return {
      texts: [text],
      model: this.model,
      ...(this.served?.attends === false ? {} : { alignment: true }),
      ...this.searching(this.session.outputs),
      ...(this.begin.length ? { prefix_tokens: [this.begin] } : {}),
    };
  }

  seeing(text: string): SeeRequest {
    return { text, model: this.model, ...this.searching(1) };
  }

  /** Other settings; what they change in the output is shown. */
  set(search: Settings): void {
    this.before = this.answer?.text ?? '';
    this.search = search;
  }

  cancel(): void {
    this.running?.abort();
    this.looking?.abort();
    this.running = this.looking = null;
    this.waiting = false;
  }

  empty(): void {
    this.cancel();
    this.answer = this.record = this.trouble = this.blind = null;
    this.of = this.before = '';
  }

  /** Translates; an earlier request that has not been answered is cancelled. */
  async translate(text: string): Promise<void> {
    this.cancel();
    if (!text.trim()) return this.empty();
    const running = (this.running = new AbortController());
    this.waiting = true;
    const begun = performance.now();
    try {
      const found = await this.client.translate(this.request(text), running.signal);
      if (running.signal.aborted) return;
      this.milliseconds = performance.now() - begun;
      this.seconds = found.seconds;
      this.engine = found.engine;
      this.answer = found.translations[0];
      this.kept = this.begin.length;
      this.of = text;
      this.trouble = null;
    } catch (error) {
      if (running.signal.aborted) return;
      this.trouble = refused(error);
    }
    this.waiting = false;
  }

  /** The inside of the model for the text on the screen. */
  async look(): Promise<void> {
    this.looking?.abort();
    const looking = (this.looking = new AbortController());
    try {
      const record = await readRecord(await this.client.see(this.seeing(this.of), looking.signal));
      if (looking.signal.aborted) return;
      this.record = record;
      this.blind = null;
    } catch (error) {
      if (looking.signal.aborted) return;
      this.record = null;
      this.blind = refused(error);
    }
  }
}

/** The whole page. */
export class Session {
  readonly client = new Client();
  info: ServerInfo | null = $state.raw(null);
  text: string = $state('');
  /** How many outputs of the text. */
  outputs: number = $state(3);
  columns: Column[] = $state.raw([]);
  /** Whether a worker of the server has its models loaded. */
  ready: boolean = $state(false);

  constructor() {
    this.columns = [new Column(this.client, this)];
  }

  get first(): Column {
    return this.columns[0];
  }

  get second(): Column | undefined {
    return this.columns[1];
  }

  get models(): ServedModel[] {
    return this.info?.models ?? [];
  }

  /** Until a worker of the server has its models loaded; raises Refused. */
  async start(): Promise<void> {
    while (!this.info?.ready) {
      this.info = await this.client.server();
      for (const column of this.columns) if (!column.served) column.model = this.models[0].name;
      if (!this.info.ready) await new Promise((done) => setTimeout(done, WARMING));
    }
  }

  /** A second column: another model for the same language, or another search of the same model. */
  compare(): Column {
    const column = new Column(this.client, this);
    const { served } = this.first;
    const other = this.models.find((each) => each.source === served?.source && each.name !== served.name);
    column.model = other?.name ?? this.first.model;
    if (!other && served) column.search = { kind: served.searches.find((each) => ['greedy', 'sample'].includes(each) && each !== (this.first.search.kind ?? served.search.kind)) };
    this.columns = [this.first, column];
    return column;
  }

  alone(): void {
    this.second?.cancel();
    this.columns = [this.first];
  }
}
