/**
 * @module Runs minijinja's WASM module: each `Minijinja` is an instance with its own memory, which is discarded when
 * the instance traps. The package's own binding keeps the state of a single instance, so its text is evaluated once for
 * each. Values are as in JSON, with maps as `Map`. Knows nothing of message parts, limits or template errors.
 */
import type { Environment as BoundEnvironment } from 'minijinja-js'
import bindingText from 'minijinja-js/dist/bundler/minijinja_js_bg.js' with { type: 'text' }
import { BUDGET_GLOBAL } from './metering.ts'

/** A filter. It gets the value, then the positional arguments, and at the end a Map of the named ones. */
export type JsFilter = (...args: readonly unknown[]) => unknown

/** A trap, or an exhausted stack or memory: the instance can no longer be used. */
export class InstanceLostError extends Error {
  override readonly name = 'InstanceLostError'
}

/** Minijinja's error for a template, in its own words. */
export class MinijinjaError extends Error {
  override readonly name = 'MinijinjaError'
}

/** A rendered template is too long. */
export class OutputTooLongError extends Error {
  override readonly name = 'OutputTooLongError'
}

interface Exports extends Readonly<Record<string, unknown>> {
  readonly memory: WebAssembly.Memory
  readonly [BUDGET_GLOBAL]: WebAssembly.Global
}

/** What the binding exports, and its view of a value that the module references by number. */
interface Binding extends Record<string, unknown> {
  readonly Environment: new () => BoundEnvironment
  __wbg_set_wasm(exports: Exports): void
  __wbindgen_string_get(at: number, handle: number): void
  __wbindgen_string_new(address: number, sizeBytes: number): number
  getObject(handle: number): unknown
}

const EXPORTED = Array.from(bindingText.matchAll(/^export (?:function|class) (\w+)/gm), ([, name]) => name)

/** Evaluates the binding. What it takes from the global scope is replaced by the parameters. */
const createBinding = new Function(
  'TextDecoder',
  'Error',
  'FinalizationRegistry',
  'console',
  `${bindingText.replaceAll(/^export /gm, '')}\nreturn { getObject, ${EXPORTED.join(', ')} }`,
) as (
  decoder: new () => Pick<TextDecoder, 'decode'>,
  error: typeof MinijinjaError,
  registry: undefined,
  output: { error(): void },
) => Binding

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
/** Shorter texts are free, because the loops that produce them are charged. */
const FREE_BYTES = 1024
const BYTES_PER_UNIT = 32

export interface MinijinjaOptions {
  /** Units for creating the instance. */
  readonly budget: number
  /**
   * Limit for the texts passed to one filter call; a text counts as often as it occurs in a list. A call with more text
   * uses up the whole budget.
   */
  readonly maxArgumentBytes: number
}

export type Environment = ReturnType<Minijinja['newEnvironment']>

/** One instance of the module. A trap throws InstanceLostError, and so does every later call. */
export class Minijinja {
  readonly #binding: Binding
  readonly #exports: Exports
  readonly #budget: WebAssembly.Global
  #argumentBytes = 0

  /** @param module minijinja_js_bg.wasm with a meter */
  constructor(module: WebAssembly.Module, { budget, maxArgumentBytes }: MinijinjaOptions) {
    const decode = (bytes: Uint8Array<ArrayBuffer> = new Uint8Array(0)): string => {
      this.#chargeBytes(bytes.length)
      return decoder.decode(bytes)
    }
    const Decoder = class {
      readonly decode = decode as TextDecoder['decode']
    }
    // The message of a panic is not printed, because the trap that follows reports the panic.
    const binding = createBinding(Decoder, MinijinjaError, undefined, { error: () => undefined })
    const imports: Readonly<Record<string, unknown>> = {
      ...binding,
      __wbindgen_string_get: (at: number, handle: number) => {
        const text = binding.getObject(handle)
        if (typeof text === 'string' && text.length > FREE_BYTES) this.#chargeBytes(Buffer.byteLength(text))
        binding.__wbindgen_string_get(at, handle)
      },
      __wbindgen_string_new: (address: number, sizeBytes: number) => {
        this.#argumentBytes += sizeBytes
        if (this.#argumentBytes > maxArgumentBytes) this.charge(Number.POSITIVE_INFINITY)
        return binding.__wbindgen_string_new(address, sizeBytes)
      },
      __wbindgen_throw: () => {
        throw new InstanceLostError('the module has thrown')
      },
    }
    const instance = new WebAssembly.Instance(module, { './minijinja_js_bg.js': imports as never })
    this.#exports = instance.exports as unknown as Exports
    this.#budget = this.#exports[BUDGET_GLOBAL]
    this.#budget.value = budget
    binding.__wbg_set_wasm(this.#exports)
    this.#binding = binding
  }

  /** Remaining units of work; below 0: they were used up. */
  budget(): number {
    return this.#budget.value
  }

  setBudget(units: number): void {
    this.#budget.value = units
  }

  /** Bytes of memory allocated from the system. */
  memoryBytes(): number {
    return this.#exports.memory.buffer.byteLength
  }

  /** Charges units for work outside of the module; throws when they are used up. */
  charge(units: number): void {
    this.#budget.value = Math.max(this.#budget.value - Math.ceil(units), -1)
    if (this.#budget.value < 0) throw new InstanceLostError('the budget is used up')
  }

  #chargeBytes(sizeBytes: number): void {
    if (sizeBytes > FREE_BYTES) this.charge(sizeBytes / BYTES_PER_UNIT)
  }

  /**
   * Templates and filters, isolated from other environments. Undefined values are handled strictly; values have Python's
   * methods.
   */
  newEnvironment() {
    const environment = this.#run(() => {
      const created = new this.#binding.Environment()
      created.enablePyCompat()
      created.undefinedBehavior = 'strict'
      return created
    })
    return {
      addFilter: (name: string, filter: JsFilter): void =>
        this.#run(() =>
          environment.addFilter(name, (...args: readonly unknown[]) => {
            this.#argumentBytes = 0
            return filter(...args)
          }),
        ),
      removeGlobal: (name: string): void => this.#run(() => environment.removeGlobal(name)),
      /**
       * Throws a MinijinjaError when the template cannot be compiled. A template whose name ends with `.html` escapes
       * its output.
       */
      addTemplate: (name: string, source: string): void =>
        this.#run(() => {
          this.#chargeBytes(Buffer.byteLength(source))
          environment.addTemplate(name, source)
        }),
      /** Throws a MinijinjaError or OutputTooLongError. */
      render: (name: string, data: unknown, maxBytes: number): string =>
        this.#run(() => {
          this.#argumentBytes = 0
          const text = environment.renderTemplate(name, data)
          if (Buffer.byteLength(text) > maxBytes) throw new OutputTooLongError()
          return text
        }),
      free: (): void => this.#run(() => environment.free()),
    }
  }

  #run<T>(act: () => T): T {
    try {
      return act()
    } catch (error) {
      // Any other error is a trap or an exhausted stack, and leaves the module in an undefined state.
      if (error instanceof MinijinjaError || error instanceof OutputTooLongError) throw error
      throw new InstanceLostError(error instanceof Error ? error.message : String(error))
    }
  }
}
