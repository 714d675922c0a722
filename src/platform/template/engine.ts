/**
 * @module Renders the parts of a message within bounds, and says what is wrong with a template. Each template has an environment of its own, so none can
 * name another. Runs in the render Worker; the same request gives the same result for good, whatever was rendered before it: what one render takes is
 * counted in units of work, and one that lacked memory is tried again in an instance of its own. (What lies in memory already changes the count by less
 * than a hundredth.)
 */
import { readFileSync } from 'node:fs'
import wasmPath from 'minijinja-js/dist/web/minijinja_js_bg.wasm' with { type: 'file' }
import { KiB } from '../units.ts'
import { adaptSource, MISSING_FILTER } from './adapt.ts'
import {
  createFaultAt,
  dataFault,
  divisionFault,
  isUndefinedError,
  isUnknownName,
  lengthFault,
  limitFault,
  missingFault,
  otherFault,
  parseErrorMessage,
} from './faults.ts'
import { FilterError } from './filter-arguments.ts'
import { createFilters, createMeteredFilter, type Filters } from './filters.ts'
import {
  COMPILE_UNITS,
  COMPILE_UNITS_PER_BYTE,
  MAX_ARGUMENT_BYTES,
  MAX_COMPILED_BYTES,
  MAX_DATA_DEPTH,
  MAX_MEMORY_BYTES,
  MAX_OUTPUT_BYTES,
  MAX_RETAINED_MEMORY_BYTES,
  RENDER_UNITS,
  RENDER_UNITS_PER_DATA_BYTE,
} from './limits.ts'
import { type KnownNames, lint } from './lint.ts'
import { meter } from './metering.ts'
import { type Environment, InstanceLostError, Minijinja, MinijinjaError, OutputTooLongError } from './minijinja.ts'
import type { RenderedParts, RenderOutcome, TemplateFault, TemplatePart, TemplateSource } from './renderer.ts'

/** What a test looks at. */
export interface EngineState {
  /** Of the last render, all parts. */
  readonly unitsTaken: number
  readonly memoryBytes: number
  readonly compiledTemplates: number
}

const PARTS = [
  ['subject', 'subject'],
  ['html', 'html_body'],
  ['text', 'text_body'],
] as const satisfies readonly (readonly [keyof TemplateSource, TemplatePart])[]

/** For what is not a tenant's work: making an environment, giving one back. */
const ENGINE_UNITS = 1_000_000_000
/** What an environment takes, and for each byte of its template: measured, and rounded up. */
const ENVIRONMENT_BYTES = 24 * KiB
const BYTES_PER_SOURCE_BYTE = 10

interface CompiledTemplate {
  readonly environment: Environment
  readonly name: string
  /** Behind the guards that it has. */
  readonly variables: readonly string[]
  /** As it was given. */
  readonly source: string
  /** Names that its tags can mention, and more; found out when it is first asked for. */
  words?: ReadonlySet<string>
  readonly sizeBytes: number
}

/** An instance and what was compiled in it, from the one that was used least recently on. */
interface Host {
  readonly instance: Minijinja
  readonly compiled: Map<string, CompiledTemplate>
  compiledBytes: number
  isFresh: boolean
}

/** What a filter stumbled over in the render that is under way; minijinja only hears that there was something. */
type FilterFailure =
  | { readonly type: 'missing'; readonly index: number }
  | { readonly type: 'filter'; readonly name: string; readonly problem: string }

/** What nothing in a template can be: minijinja refuses it as a filter's result, and says where. */
const NO_VALUE = Symbol('no value')

/** Renders in an instance of minijinja, which it replaces when that is lost or large. */
export class Engine {
  readonly #module = new WebAssembly.Module(meter(readFileSync(wasmPath), { mostBytes: MAX_MEMORY_BYTES }))
  #host: Host
  #filterFailure: FilterFailure | undefined
  #unitsTaken = 0
  readonly #filters: Filters
  readonly #charge = (units: number): void => this.#host.instance.charge(units)
  /** Not those that nobody knows: a tenant can ask for any number of them. */
  readonly #knownNames = { filter: new Set<string>(), test: new Set<string>() }
  readonly #known: KnownNames

  /** Throws when the module is not the one that it knows. */
  constructor() {
    this.#host = this.#newHost()
    this.#filters = createFilters(this.#charge)
    this.#known = {
      isFilter: (name) => this.#isKnown('filter', name),
      isTest: (name) => this.#isKnown('test', name),
    }
  }

  /** @param share of the units of work that a render may take */
  render(source: TemplateSource, dataJson: string, share: number): RenderOutcome {
    this.#unitsTaken = 0
    const data = parseVariables(dataJson)
    if ('message' in data) return { kind: 'fault', fault: data }
    const units = Math.floor(share * (RENDER_UNITS + RENDER_UNITS_PER_DATA_BYTE * dataJson.length))
    const parts: { -readonly [K in keyof RenderedParts]: RenderedParts[K] } = {}
    for (const [key, part] of PARTS) {
      const text = source[key]
      if (text === undefined) continue
      const rendered = this.#renderPart(part, text, data, units - this.#unitsTaken)
      if (typeof rendered !== 'string') {
        this.#replaceLargeHost()
        return { kind: 'fault', fault: rendered }
      }
      if (hasNonNumber(rendered, text, dataJson)) {
        this.#replaceLargeHost()
        return { kind: 'fault', fault: divisionFault(part) }
      }
      // Minijinja escapes it, which nobody needs, and programs that look for links do not expect.
      parts[key] = part === 'html_body' ? rendered.replaceAll('&#x2f;', '/') : rendered
    }
    this.#replaceLargeHost()
    return { kind: 'rendered', parts }
  }

  check(source: TemplateSource): readonly TemplateFault[] {
    const faults: TemplateFault[] = []
    for (const [key, part] of PARTS) {
      const text = source[key]
      if (text === undefined) continue
      try {
        this.#runInHost(() => this.#getCompiled(part, text))
        const fault = this.#runInHost(() => lint(part, text, this.#known))
        if (fault) faults.push(fault)
      } catch (error) {
        if (error instanceof InstanceLostError) faults.push(limitFault(part))
        else if (error instanceof MinijinjaError) faults.push(otherFault(part, parseErrorMessage(error.message)))
        else throw error
      }
    }
    this.#replaceLargeHost()
    return faults
  }

  state(): EngineState {
    return {
      unitsTaken: this.#unitsTaken,
      memoryBytes: this.#host.instance.memoryBytes(),
      compiledTemplates: this.#host.compiled.size,
    }
  }

  #newHost(): Host {
    return {
      instance: new Minijinja(this.#module, { budget: ENGINE_UNITS, maxArgumentBytes: MAX_ARGUMENT_BYTES }),
      compiled: new Map(),
      compiledBytes: 0,
      isFresh: true,
    }
  }

  #newEnvironment(): Environment {
    this.#host.instance.setBudget(ENGINE_UNITS)
    const environment = this.#host.instance.newEnvironment()
    // It would tell of the machinery.
    environment.removeGlobal('debug')
    for (const [name, filter] of Object.entries(this.#filters.byName)) {
      const paid = createMeteredFilter(name, filter, this.#charge)
      environment.addFilter(name, (value, ...given) => {
        try {
          return paid(value, ...given)
        } catch (error) {
          if (!(error instanceof FilterError)) throw error
          this.#filterFailure ??= { type: 'filter', name, problem: error.message }
          return NO_VALUE
        }
      })
    }
    environment.addFilter(MISSING_FILTER, (index) => {
      this.#filterFailure ??= { type: 'missing', index: Number(index) }
      return NO_VALUE
    })
    return environment
  }

  #release(environment: Environment): void {
    this.#host.instance.setBudget(ENGINE_UNITS)
    environment.free()
  }

  /** Compiles a template, with as much work as its length allows. Throws a MinijinjaError or InstanceLostError. */
  #compile(part: TemplatePart, source: string, isForAll: boolean): CompiledTemplate {
    const name = part === 'html_body' ? 'template.html' : 'template.txt'
    const environment = this.#newEnvironment()
    this.#host.isFresh = false
    const units = COMPILE_UNITS + COMPILE_UNITS_PER_BYTE * source.length
    this.#host.instance.setBudget(units)
    const adapted = adaptSource(source, { guardsAll: isForAll, charge: this.#charge })
    const beforeBytes = this.#host.instance.memoryBytes()
    // What is constant is worked out now, and can be larger than its source.
    const sizeBytes = (): number =>
      ENVIRONMENT_BYTES +
      Math.max(BYTES_PER_SOURCE_BYTE * adapted.source.length, this.#host.instance.memoryBytes() - beforeBytes)
    const add = (given: string, variables: readonly string[]): CompiledTemplate => {
      this.#host.instance.setBudget(units)
      environment.addTemplate(name, given)
      return { environment, name, source, sizeBytes: sizeBytes(), variables }
    }
    try {
      try {
        return add(adapted.source, adapted.variables)
      } catch (error) {
        // As its author wrote it: the fault is theirs, or something was rewritten that should not have been.
        if (!(error instanceof MinijinjaError) || adapted.source === source) throw error
        return add(source, [])
      }
    } catch (error) {
      if (error instanceof MinijinjaError) this.#release(environment)
      throw error
    }
  }

  /** The template compiled, and kept for the next time. */
  #getCompiled(part: TemplatePart, source: string): CompiledTemplate {
    const key = `${part === 'html_body' ? 'html' : 'text'} ${source}`
    const known = this.#host.compiled.get(key)
    if (known) {
      this.#host.compiled.delete(key)
      this.#host.compiled.set(key, known)
      return known
    }
    const made = this.#compile(part, source, false)
    this.#host.compiled.set(key, made)
    this.#host.compiledBytes += made.sizeBytes
    for (const [oldKey, old] of this.#host.compiled) {
      if (this.#host.compiledBytes <= MAX_COMPILED_BYTES || old === made) break
      this.#host.compiled.delete(oldKey)
      this.#host.compiledBytes -= old.sizeBytes
      this.#release(old.environment)
    }
    return made
  }

  /** Runs what may lose the instance; what lacked memory in a used one is run again in a fresh one. */
  #runInHost<T>(act: () => T): T {
    const wasFresh = this.#host.isFresh
    try {
      return act()
    } catch (error) {
      if (!(error instanceof InstanceLostError)) throw error
      const isOutOfUnits = this.#host.instance.budget() < 0
      this.#host = this.#newHost()
      if (isOutOfUnits || wasFresh) throw error
    }
    try {
      return act()
    } catch (error) {
      if (error instanceof InstanceLostError) this.#host = this.#newHost()
      throw error
    }
  }

  #renderPart(part: TemplatePart, source: string, data: Variables, units: number): string | TemplateFault {
    let left = units
    const takenBefore = this.#unitsTaken
    const run = (compiled: CompiledTemplate): string => {
      this.#filterFailure = undefined
      this.#filters.beginRender()
      this.#host.instance.setBudget(left)
      try {
        return compiled.environment.render(compiled.name, selectVariables(compiled, data), MAX_OUTPUT_BYTES)
      } finally {
        const unused = Math.max(this.#host.instance.budget(), 0)
        this.#unitsTaken += left - unused
        left = unused
      }
    }
    let variables: readonly string[] = []
    this.#filterFailure = undefined
    try {
      return this.#runInHost(() => {
        left = units
        this.#unitsTaken = takenBefore
        const compiled = this.#getCompiled(part, source)
        variables = compiled.variables
        return run(compiled)
      })
    } catch (error) {
      const fault = this.#toFault(error, part, source, variables)
      if (fault.kind !== 'undefined' || fault.variable !== undefined) return fault
      // Once more, with the work that is left, to hear the name.
      return this.#findMissingName(part, source, fault, run)
    }
  }

  /** Of the template that ran: what a filter told, or minijinja. */
  #toFault(error: unknown, part: TemplatePart, source: string, variables: readonly string[]): TemplateFault {
    if (error instanceof InstanceLostError) return limitFault(part)
    if (error instanceof OutputTooLongError) return lengthFault(part, MAX_OUTPUT_BYTES)
    if (!(error instanceof MinijinjaError)) throw error
    const said = parseErrorMessage(error.message)
    const stumble = this.#filterFailure
    if (stumble?.type === 'missing') return missingFault(part, said.line, variables[stumble.index])
    if (stumble) return createFaultAt(part, said.line, 'error', `the filter "${stumble.name}" ${stumble.problem}`)
    if (isUndefinedError(said)) return missingFault(part, said.line, undefined)
    return (isUnknownName(said) ? lint(part, source, this.#known) : undefined) ?? otherFault(part, said)
  }

  #findMissingName(
    part: TemplatePart,
    source: string,
    fault: TemplateFault,
    run: (compiled: CompiledTemplate) => string,
  ): TemplateFault {
    try {
      const compiled = this.#compile(part, source, true)
      try {
        run(compiled)
      } catch (error) {
        if (!(error instanceof MinijinjaError)) throw error
        if (this.#filterFailure?.type === 'missing')
          return missingFault(
            part,
            parseErrorMessage(error.message).line,
            compiled.variables[this.#filterFailure.index],
          )
      } finally {
        if (this.#host.instance.budget() >= 0) this.#release(compiled.environment)
      }
    } catch (error) {
      if (error instanceof InstanceLostError) this.#host = this.#newHost()
    }
    return fault
  }

  #isKnown(kind: 'filter' | 'test', name: string): boolean {
    if (this.#knownNames[kind].has(name)) return true
    const environment = this.#newEnvironment()
    let answer: boolean
    try {
      environment.addTemplate('known.txt', `{{ name is ${kind} }}`)
      answer = environment.render('known.txt', { name }, MAX_OUTPUT_BYTES) === 'true'
    } finally {
      environment.free()
    }
    if (answer) this.#knownNames[kind].add(name)
    return answer
  }

  /** A memory never becomes smaller. */
  #replaceLargeHost(): void {
    if (this.#host.instance.memoryBytes() > MAX_RETAINED_MEMORY_BYTES) this.#host = this.#newHost()
  }
}

/** Whether it prints what a division by zero gives; where source or data have such a word it may well be theirs. */
function hasNonNumber(rendered: string, source: string, dataJson: string): boolean {
  const [word] = /\bNaN\b|\binf\b/.exec(rendered) ?? []
  if (word === undefined) return false
  const own = new RegExp(word, 'i')
  return !own.test(source) && !own.test(dataJson)
}

interface Variables {
  readonly sizeBytes: number
  readonly entries: readonly (readonly [string, unknown])[]
}

function parseVariables(dataJson: string): Variables | TemplateFault {
  if (measureDepth(dataJson) > MAX_DATA_DEPTH)
    return dataFault('limit', `template_data nests deeper than ${MAX_DATA_DEPTH} levels: make it flatter.`)
  let data: unknown
  try {
    data = LONG_NUMBER.test(dataJson) ? JSON.parse(dataJson, reviveWholeNumber) : JSON.parse(dataJson)
  } catch {
    data = undefined
  }
  if (typeof data !== 'object' || data === null || Array.isArray(data))
    return dataFault('error', 'template_data must be a JSON object.')
  return { sizeBytes: dataJson.length, entries: Object.entries(data) }
}

/** Such as may be more than JavaScript's numbers hold; texts have them too, which does no harm. */
const LONG_NUMBER = /\d{16}/

/** Whole numbers of 64 bits as they are written: they are ids. Others that long are not exact, as in most languages. */
function reviveWholeNumber(_: string, value: unknown, { source }: { readonly source?: string } = {}): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d{1,20}$/.test(source ?? '')) return value
  const whole = BigInt(source ?? 0)
  return whole === BigInt.asIntN(64, whole) || whole === BigInt.asUintN(64, whole) ? whole : value
}

const ASCII_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Below it, variables are handed over without a look at which are needed. */
const SMALL_DATA_BYTES = 4 * KiB

/** Only what the template can mention: taking in large data costs more than most templates do with it. */
function selectVariables(
  compiled: CompiledTemplate,
  { entries, sizeBytes }: Variables,
): Readonly<Record<string, unknown>> {
  if (sizeBytes < SMALL_DATA_BYTES) return Object.fromEntries(entries)
  compiled.words ??= new Set(compiled.source.match(/[A-Za-z_][A-Za-z0-9_]*/g))
  const { words } = compiled
  return Object.fromEntries(entries.filter(([name]) => words.has(name) || !ASCII_NAME.test(name)))
}

/** How deep lists and objects lie in each other in a JSON text. */
function measureDepth(json: string): number {
  let depth = 0
  let most = 0
  let isInString = false
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (isInString) {
      if (code === BACKSLASH) at++
      else if (code === QUOTE) isInString = false
    } else if (code === QUOTE) isInString = true
    else if (code === OPEN_LIST || code === OPEN_OBJECT) most = Math.max(most, ++depth)
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth--
  }
  return most
}

const [QUOTE, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d]
