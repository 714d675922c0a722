/**
 * @module Renders the parts of a message within limits, and describes errors in templates. Each template has its own
 * environment, so no template can reference another. Runs in the render Worker. The same request always gives the
 * same result, whatever was rendered before: each render is limited by units of work, and a render that lacked memory
 * is repeated in a fresh instance. (What the memory already contains changes the units by less than a hundredth.)
 */
import { readFileSync } from 'node:fs'
import wasmPath from 'minijinja-js/dist/bundler/minijinja_js_bg.wasm' with { type: 'file' }
import { attempt } from '#platform/errors.ts'
import { isJsonObject } from '../json-object.ts'
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
import * as limits from './limits.ts'
import { type IsKnown, lint } from './lint.ts'
import { meter } from './metering.ts'
import { type Environment, InstanceLostError, Minijinja, MinijinjaError, OutputTooLongError } from './minijinja.ts'
import {
  PARTS,
  type RenderedParts,
  type RenderOutcome,
  type TemplateFault,
  type TemplatePart,
  type TemplateSource,
} from './renderer.ts'

/** Units for the engine's own work: creating an environment, freeing one. */
const ENGINE_UNITS = 1_000_000_000
/** Memory of an environment, and memory per byte of its template; both measured and rounded up. */
const ENVIRONMENT_BYTES = 24 * KiB
const BYTES_PER_SOURCE_BYTE = 10

interface CompiledTemplate {
  readonly environment: Environment
  readonly name: string
  /** The guarded variables, by the index that their guards contain. */
  readonly variables: readonly string[]
  /** The source before it was adapted. */
  readonly source: string
  /** All words in the source, a superset of the names in its tags; collected on demand. */
  words?: ReadonlySet<string>
  readonly sizeBytes: number
}

/** An instance of minijinja, and the templates compiled in it, the least recently used first. */
interface Host {
  readonly instance: Minijinja
  readonly compiled: Map<string, CompiledTemplate>
  compiledBytes: number
  isFresh: boolean
}

/**
 * Why a filter failed in the current render. This is recorded here, because minijinja learns only that the filter
 * failed.
 */
type FilterFailure =
  | { readonly type: 'missing'; readonly index: number }
  | { readonly type: 'filter'; readonly name: string; readonly problem: string }

/** The value that a failed filter returns. Minijinja rejects it, with an error that has the line of the filter. */
const NO_VALUE = Symbol('no value')

/** Renders in an instance of minijinja, and replaces the instance when it is lost or large. */
export class Engine {
  readonly #module = new WebAssembly.Module(meter(readFileSync(wasmPath), { maxBytes: limits.MAX_MEMORY_BYTES }))
  #host: Host
  #filterFailure: FilterFailure | undefined
  #unitsTaken = 0
  readonly #filters: Filters
  readonly #charge = (units: number): void => this.#host.instance.charge(units)
  /**
   * Names of filters and tests that exist. Unknown names are not cached, because a tenant could use any number of them.
   */
  readonly #knownNames = { filter: new Set<string>(), test: new Set<string>() }

  /** Throws when the WASM module is not the supported one. */
  constructor() {
    this.#host = this.#newHost()
    this.#filters = createFilters(this.#charge)
  }

  /** @param share fraction of the units of work that the render may use */
  render(source: TemplateSource, dataJson: string, share: number): RenderOutcome {
    this.#unitsTaken = 0
    const data = parseVariables(dataJson)
    if ('message' in data) return { kind: 'fault', fault: data }
    const units = Math.floor(share * (limits.RENDER_UNITS + limits.RENDER_UNITS_PER_DATA_BYTE * dataJson.length))
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
      // Minijinja escapes slashes, which is unnecessary and confuses programs that look for links.
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
        const fault = this.#runInHost(() => lint(part, text, this.#isKnown))
        if (fault) faults.push(fault)
      } catch (error) {
        if (error instanceof InstanceLostError) faults.push(limitFault(part))
        else if (error instanceof MinijinjaError) faults.push(otherFault(part, text, parseErrorMessage(error.message)))
        else throw error
      }
    }
    this.#replaceLargeHost()
    return faults
  }

  /** State that tests read. */
  state() {
    return {
      /** Units that all parts of the last render took together. */
      unitsTaken: this.#unitsTaken,
      memoryBytes: this.#host.instance.memoryBytes(),
      compiledTemplates: this.#host.compiled.size,
    }
  }

  #newHost(): Host {
    return {
      instance: new Minijinja(this.#module, { budget: ENGINE_UNITS, maxArgumentBytes: limits.MAX_ARGUMENT_BYTES }),
      compiled: new Map(),
      compiledBytes: 0,
      isFresh: true,
    }
  }

  #newEnvironment(): Environment {
    this.#host.instance.setBudget(ENGINE_UNITS)
    const environment = this.#host.instance.newEnvironment()
    // `debug` would show internals of the engine to a template's author.
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

  /**
   * Compiles a template, with a work limit that depends on the template's length. Throws a MinijinjaError or
   * InstanceLostError.
   */
  #compile(part: TemplatePart, source: string): CompiledTemplate {
    const name = part === 'html_body' ? 'template.html' : 'template.txt'
    const environment = this.#newEnvironment()
    this.#host.isFresh = false
    const units = limits.COMPILE_UNITS + limits.COMPILE_UNITS_PER_BYTE * source.length
    this.#host.instance.setBudget(units)
    const adapted = adaptSource(source, this.#charge)
    const beforeBytes = this.#host.instance.memoryBytes()
    // Constant expressions are evaluated now, and the result may be larger than its source.
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
        // Compiles the template as written: if that fails too, the error is the author's; if not, the rewriting was
        // wrong.
        if (!(error instanceof MinijinjaError) || adapted.source === source) throw error
        return add(source, [])
      }
    } catch (error) {
      if (error instanceof MinijinjaError) this.#release(environment)
      throw error
    }
  }

  /** Returns the compiled template, and caches it for the next time. */
  #getCompiled(part: TemplatePart, source: string): CompiledTemplate {
    const key = `${part === 'html_body' ? 'html' : 'text'} ${source}`
    const known = this.#host.compiled.get(key)
    if (known) {
      this.#host.compiled.delete(key)
      this.#host.compiled.set(key, known)
      return known
    }
    const made = this.#compile(part, source)
    this.#host.compiled.set(key, made)
    this.#host.compiledBytes += made.sizeBytes
    for (const [oldKey, old] of this.#host.compiled) {
      if (this.#host.compiledBytes <= limits.MAX_COMPILED_BYTES || old === made) break
      this.#host.compiled.delete(oldKey)
      this.#host.compiledBytes -= old.sizeBytes
      this.#release(old.environment)
    }
    return made
  }

  /**
   * Runs work that may lose the instance. If the work lacked memory in a used instance, it runs again in a fresh one.
   */
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
    const takenBefore = this.#unitsTaken
    let variables: readonly string[] = []
    this.#filterFailure = undefined
    try {
      return this.#runInHost(() => {
        const compiled = this.#getCompiled(part, source)
        variables = compiled.variables
        this.#filterFailure = undefined
        this.#filters.beginRender()
        this.#host.instance.setBudget(units)
        try {
          return compiled.environment.render(compiled.name, selectVariables(compiled, data), limits.MAX_OUTPUT_BYTES)
        } finally {
          this.#unitsTaken = takenBefore + units - Math.max(this.#host.instance.budget(), 0)
        }
      })
    } catch (error) {
      return this.#toFault(error, part, source, variables)
    }
  }

  /** The problem that a filter or minijinja reported for the template that ran. */
  #toFault(error: unknown, part: TemplatePart, source: string, variables: readonly string[]): TemplateFault {
    if (error instanceof InstanceLostError) return limitFault(part)
    if (error instanceof OutputTooLongError) return lengthFault(part, limits.MAX_OUTPUT_BYTES)
    if (!(error instanceof MinijinjaError)) throw error
    const parsedError = parseErrorMessage(error.message)
    const failure = this.#filterFailure
    if (failure?.type === 'missing') return missingFault(part, parsedError.line, variables[failure.index])
    if (failure)
      return createFaultAt(part, parsedError.line, 'error', `the filter "${failure.name}" ${failure.problem}`)
    if (isUndefinedError(parsedError)) return missingFault(part, parsedError.line, undefined)
    return (
      (isUnknownName(parsedError) ? lint(part, source, this.#isKnown) : undefined) ??
      otherFault(part, source, parsedError)
    )
  }

  readonly #isKnown: IsKnown = (kind, name) => {
    if (this.#knownNames[kind].has(name)) return true
    const environment = this.#newEnvironment()
    let answer: boolean
    try {
      environment.addTemplate('known.txt', `{{ name is ${kind} }}`)
      answer = environment.render('known.txt', { name }, limits.MAX_OUTPUT_BYTES) === 'true'
    } finally {
      environment.free()
    }
    if (answer) this.#knownNames[kind].add(name)
    return answer
  }

  /** Needed because WASM memory never shrinks. */
  #replaceLargeHost(): void {
    if (this.#host.instance.memoryBytes() > limits.MAX_RETAINED_MEMORY_BYTES) this.#host = this.#newHost()
  }
}

/**
 * Whether the output contains the result of a division by zero. False if the same word is in the source or the data,
 * because the word in the output then probably comes from there.
 */
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
  const revive = LONG_NUMBER.test(dataJson) ? reviveWholeNumber : undefined
  const data: unknown = attempt(() => JSON.parse(dataJson, revive))
  if (!isJsonObject(data)) return dataFault('error', 'template_data must be a JSON object.')
  return { sizeBytes: dataJson.length, entries: Object.entries(data) }
}

/** Numbers that may exceed JavaScript's integers; matches inside strings do no harm. */
const LONG_NUMBER = /\d{16}/

/** Keeps 64-bit integers exact, because they are ids. Other long numbers lose precision, as in most languages. */
function reviveWholeNumber(_: string, value: unknown, { source }: { readonly source?: string } = {}): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d{1,20}$/.test(source ?? '')) return value
  const whole = BigInt(source ?? 0)
  return whole === BigInt.asIntN(64, whole) || whole === BigInt.asUintN(64, whole) ? whole : value
}

const ASCII_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Data smaller than this is passed whole; from larger data, variables are selected. */
const SMALL_DATA_BYTES = 4 * KiB

/**
 * Selects the variables that the template can mention, because importing large data costs more than most templates do
 * with the data.
 */
function selectVariables(
  compiled: CompiledTemplate,
  { entries, sizeBytes }: Variables,
): Readonly<Record<string, unknown>> {
  if (sizeBytes < SMALL_DATA_BYTES) return Object.fromEntries(entries)
  compiled.words ??= new Set(compiled.source.match(/[A-Za-z_][A-Za-z0-9_]*/g))
  const { words } = compiled
  return Object.fromEntries(entries.filter(([name]) => words.has(name) || !ASCII_NAME.test(name)))
}
