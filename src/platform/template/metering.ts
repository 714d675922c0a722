/**
 * @module Adds a work meter to a WASM module, so that its code ends after a fixed amount of work, whatever it does.
 * Without a meter, the code could be stopped only by ending the whole Worker. Every loop iteration, function call and
 * host call takes units from the exported global `budget`; copying and filling memory take units by size. The module
 * traps once the budget is below 0. Parses the binary format of WebAssembly 1.0 with bulk memory (§5 of its
 * specification) and throws on anything else.
 */
import { KiB, MiB } from '../units.ts'

/**
 * Name of the exported global, a mutable i32. The host sets it before a call and reads the remaining units afterwards.
 */
export const BUDGET_GLOBAL = 'budget'

const PAGE_BYTES = 64 * KiB

/** Units per host call: each call leaves the module and creates or reads a value. */
const HOST_CALL_COST = 6
/** Bytes copied or filled per unit, as a power of 2. */
const BYTES_PER_UNIT_LOG2 = 5

/**
 * The longer a loop, the more an iteration costs. The cost has a maximum, because no iteration runs all branches of a
 * long loop.
 */
const INSTRUCTIONS_PER_UNIT = 32
const MAX_LOOP_COST = 8

const SECTION = { type: 1, import: 2, function: 3, memory: 5, global: 6, export: 7, code: 10 } as const

const I32 = 0x7f
const OP = {
  unreachable: 0x00,
  block: 0x02,
  loop: 0x03,
  if: 0x04,
  end: 0x0b,
  call: 0x10,
  localGet: 0x20,
  localTee: 0x22,
  globalGet: 0x23,
  globalSet: 0x24,
  i32Const: 0x41,
  i32LtS: 0x48,
  i32Sub: 0x6b,
  i32ShrU: 0x76,
  misc: 0xfc,
} as const
const EMPTY_BLOCK = 0x40
const MEMORY_COPY = 10
const MEMORY_FILL = 11

/**
 * @param limits maxBytes: maximum memory of the module; a multiple of 64 KiB, the size of a page
 * @returns the module with the meter; throws when it does not fully understand the module
 */
export function meter(wasm: Uint8Array, { maxBytes }: { readonly maxBytes: number }): Uint8Array<ArrayBuffer> {
  const input = createReader(wasm)
  const out = createWriter(2 * wasm.length + MiB)
  const header = input.bytes(8)
  if (Buffer.compare(header, Buffer.from('0061736d01000000', 'hex')) !== 0) throw new Error('not a WASM module')
  out.bytes(header)

  const facts: ModuleFacts = {
    maxPages: Math.floor(maxBytes / PAGE_BYTES),
    seen: new Set(),
    paramsOfType: [],
    typeOfFunction: [],
    importedFunctions: 0,
    globals: 0,
  }
  while (!input.isAtEnd()) {
    const id = input.byte()
    const sizeBytes = input.u32()
    const section = createReader(input.bytes(sizeBytes))
    facts.seen.add(id)
    const body = createWriter(id === SECTION.code ? 2 * sizeBytes + MiB : sizeBytes + 64)
    if (id in SECTION_READERS) SECTION_READERS[id as keyof typeof SECTION_READERS](section, facts)
    if (id in SECTION_REWRITERS) SECTION_REWRITERS[id as keyof typeof SECTION_REWRITERS](section, body, facts)
    const isChanged = body.length() > 0
    out.byte(id)
    out.u32(isChanged ? body.length() : sizeBytes)
    out.bytes(isChanged ? body.result() : section.all)
  }
  assertSupported(facts.seen.has(SECTION.code), 'no code')
  return out.result()
}

/** Facts that the earlier sections state. */
interface ModuleFacts {
  readonly maxPages: number
  /** Ids of the sections read so far. */
  readonly seen: Set<number>
  readonly paramsOfType: number[]
  readonly typeOfFunction: number[]
  importedFunctions: number
  globals: number
}

/** Sections that stay unchanged and provide facts about the code. */
const SECTION_READERS = {
  [SECTION.type](section: Reader, facts: ModuleFacts): void {
    for (let left = section.u32(); left > 0; left--) {
      assertSupported(section.byte() === 0x60, 'a type that is not a function')
      const params = section.u32()
      section.bytes(params)
      section.bytes(section.u32())
      facts.paramsOfType.push(params)
    }
  },
  [SECTION.import](section: Reader, facts: ModuleFacts): void {
    for (let left = section.u32(); left > 0; left--) {
      section.bytes(section.u32())
      section.bytes(section.u32())
      assertSupported(section.byte() === 0x00, 'an import that is not a function')
      section.u32()
      facts.importedFunctions++
    }
  },
  [SECTION.function](section: Reader, facts: ModuleFacts): void {
    for (let left = section.u32(); left > 0; left--) facts.typeOfFunction.push(section.u32())
  },
}

/** Sections that are rewritten: the memory limit, the global and its export, the meter in the code. */
const SECTION_REWRITERS = {
  [SECTION.memory](section: Reader, body: Writer, { maxPages: mostPages }: ModuleFacts): void {
    assertSupported(section.u32() === 1, 'more than one memory')
    const hasMaximum = section.byte()
    assertSupported(hasMaximum <= 1, 'limits of an unknown kind')
    const pages = section.u32()
    if (hasMaximum) section.u32()
    assertSupported(pages <= mostPages, 'a memory that starts above its limit')
    body.u32(1)
    body.byte(1)
    body.u32(pages)
    body.u32(mostPages)
  },
  [SECTION.global](section: Reader, body: Writer, facts: ModuleFacts): void {
    facts.globals = section.u32()
    body.u32(facts.globals + 1)
    body.bytes(section.rest())
    body.bytes([I32, 1, OP.i32Const, 0, OP.end])
  },
  [SECTION.export](section: Reader, body: Writer, { seen, globals }: ModuleFacts): void {
    assertSupported(seen.has(SECTION.global), 'exports before globals')
    body.u32(section.u32() + 1)
    body.bytes(section.rest())
    body.u32(BUDGET_GLOBAL.length)
    body.bytes(Buffer.from(BUDGET_GLOBAL))
    body.byte(0x03)
    body.u32(globals)
  },
  [SECTION.code](section: Reader, body: Writer, facts: ModuleFacts): void {
    const { seen, paramsOfType, typeOfFunction, importedFunctions, globals } = facts
    assertSupported(
      seen.has(SECTION.global) && seen.has(SECTION.export) && seen.has(SECTION.memory),
      'no globals, exports or memory',
    )
    const functions = section.u32()
    body.u32(functions)
    for (let index = 0; index < functions; index++) {
      const code = createReader(section.bytes(section.u32()))
      const params = paramsOfType[typeOfFunction[index] ?? -1]
      assertSupported(params !== undefined, 'a function without a type')
      const metered = meterFunction(code, { params, importedFunctions, budget: globals })
      body.u32(metered.length)
      body.bytes(metered)
    }
  },
}

interface FunctionFacts {
  readonly params: number
  /** Number of imported functions: functions with a lower index belong to the host. */
  readonly importedFunctions: number
  /** Index of the global. */
  readonly budget: number
}

function meterFunction(code: Reader, { params, importedFunctions, budget }: FunctionFacts): Uint8Array {
  const out = createWriter(4 * code.all.length + 256)
  const groups = code.u32()
  let locals = params
  const declaredFrom = code.at()
  for (let left = groups; left > 0; left--) {
    locals += code.u32()
    code.byte()
  }
  const declared = code.all.subarray(declaredFrom, code.at())
  // Adds one local, for the length of a copy. Most functions never use this local; it then costs nothing.
  out.u32(groups + 1)
  out.bytes(declared)
  out.u32(1)
  out.byte(I32)
  const length = locals

  const check = (): void => {
    out.byte(OP.globalGet)
    out.u32(budget)
    out.bytes([OP.i32Const, 0, OP.i32LtS, OP.if, EMPTY_BLOCK, OP.unreachable, OP.end])
  }
  const charge = (units: number): void => {
    out.byte(OP.globalGet)
    out.u32(budget)
    // A number below 64 takes one byte.
    out.bytes([OP.i32Const, units, OP.i32Sub, OP.globalSet])
    out.u32(budget)
    check()
  }
  const chargeLength = (): void => {
    out.byte(OP.localTee)
    out.u32(length)
    out.byte(OP.globalGet)
    out.u32(budget)
    out.byte(OP.localGet)
    out.u32(length)
    out.bytes([OP.i32Const, BYTES_PER_UNIT_LOG2, OP.i32ShrU, OP.i32Sub, OP.globalSet])
    out.u32(budget)
    check()
  }

  let copiedTo = code.at()
  const copyUntil = (end: number): void => {
    out.bytes(code.all.subarray(copiedTo, end))
    copiedTo = end
  }
  const costs = loopCosts(code)
  charge(1)
  let loops = 0
  while (!code.isAtEnd()) {
    const start = code.at()
    const opcode = code.byte()
    if (opcode === OP.loop) {
      skipImmediates(code, opcode)
      copyUntil(code.at())
      charge(costs[loops++] ?? 1)
    } else if (opcode === OP.call) {
      const callee = code.u32()
      if (callee >= importedFunctions) continue
      copyUntil(start)
      charge(HOST_CALL_COST)
    } else if (opcode === OP.misc) {
      const sub = code.u32()
      skipMiscImmediates(code, sub)
      if (sub !== MEMORY_COPY && sub !== MEMORY_FILL) continue
      copyUntil(start)
      chargeLength()
    } else skipImmediates(code, opcode)
  }
  copyUntil(code.at())
  return out.result()
}

/**
 * Cost per iteration of each loop, in the order of the loops; a longer loop costs more. Restores the reader's position.
 */
function loopCosts(code: Reader): readonly number[] {
  const from = code.at()
  const instructions: number[] = []
  /** For each open block, the index of the innermost loop that contains its instructions; -1: no loop does. */
  const open = [-1]
  while (!code.isAtEnd()) {
    const opcode = code.byte()
    if (opcode === OP.misc) skipMiscImmediates(code, code.u32())
    else skipImmediates(code, opcode)
    const around = open.at(-1) ?? -1
    if (opcode === OP.end) open.pop()
    else if (opcode === OP.loop) open.push(instructions.push(0) - 1)
    else if (opcode === OP.block || opcode === OP.if) open.push(around)
    if (around >= 0) instructions[around] = (instructions[around] ?? 0) + 1
  }
  code.goTo(from)
  return instructions.map((count) => Math.min(1 + Math.floor(count / INSTRUCTIONS_PER_UNIT), MAX_LOOP_COST))
}

/** Skips an instruction's operands; throws on an unknown instruction. */
function skipImmediates(code: Reader, opcode: number): void {
  const isBetween = (first: number, last: number): boolean => opcode >= first && opcode <= last
  // block, loop, if: an empty type or a value type is one byte; any other type is the index of a function type.
  if (isBetween(0x02, 0x04) || opcode === 0x41 || opcode === 0x42)
    code.skipNumber() // and i32.const, i64.const
  else if (opcode === 0x0c || opcode === 0x0d || opcode === 0x10 || isBetween(0x20, 0x24))
    code.u32() // br, br_if, call; the instructions of locals and globals
  else if (opcode === 0x0e)
    for (let left = code.u32() + 1; left > 0; left--) code.u32() // br_table
  else if (opcode === 0x11 || isBetween(0x28, 0x3e)) {
    code.u32() // call_indirect; loads and stores: alignment and offset
    code.u32()
  } else if (opcode === 0x3f || opcode === 0x40)
    assertSupported(code.byte() === 0, 'a memory other than the first') // memory.size, memory.grow
  else if (opcode === 0x43 || opcode === 0x44)
    code.bytes(opcode === 0x43 ? 4 : 8) // f32.const, f64.const
  else {
    // unreachable, nop, else, end, return, drop, select; comparisons and arithmetic.
    const isPlain = [0x00, 0x01, 0x05, 0x0b, 0x0f, 0x1a, 0x1b].includes(opcode) || isBetween(0x45, 0xc4)
    assertSupported(isPlain, `the unknown instruction 0x${opcode.toString(16)}`)
  }
}

function skipMiscImmediates(code: Reader, sub: number): void {
  // Saturating conversions.
  if (sub <= 7) return
  if (sub === MEMORY_COPY) assertSupported(code.byte() === 0 && code.byte() === 0, 'a memory other than the first')
  else if (sub === MEMORY_FILL) assertSupported(code.byte() === 0, 'a memory other than the first')
  else assertSupported(false, `the unknown instruction 0xfc ${sub}`)
}

function assertSupported(isSo: boolean, problem: string): asserts isSo {
  if (!isSo) throw new Error(`the WASM module cannot be metered: it has ${problem}`)
}

type Reader = ReturnType<typeof createReader>

function createReader(all: Uint8Array) {
  let at = 0
  const byte = (): number => {
    const value = all[at++]
    if (value === undefined) throw new Error('the WASM module ends in the middle')
    return value
  }
  const bytes = (count: number): Uint8Array => {
    assertSupported(at + count <= all.length, 'a length beyond its end')
    at += count
    return all.subarray(at - count, at)
  }
  return {
    all,
    at: () => at,
    goTo: (to: number): void => {
      at = to
    },
    isAtEnd: () => at === all.length,
    byte,
    bytes,
    rest: () => bytes(all.length - at),
    u32(): number {
      let value = 0
      for (let shift = 0; shift < 35; shift += 7) {
        const next = byte()
        value += (next & 0x7f) * 2 ** shift
        if (next < 0x80) return value
      }
      throw new Error('the WASM module cannot be metered: it has a number that is too long')
    },
    /** Skips a signed number of at most 64 bits. */
    skipNumber(): void {
      for (let left = 10; left > 0; left--) if (byte() < 0x80) return
      assertSupported(false, 'a number that is too long')
    },
  }
}

type Writer = ReturnType<typeof createWriter>

/** @param capacityBytes maximum size */
function createWriter(capacityBytes: number) {
  const all = new Uint8Array(capacityBytes)
  let at = 0
  const byte = (value: number): void => {
    if (at === capacityBytes) throw new Error('the metered WASM module is larger than expected')
    all[at++] = value
  }
  return {
    length: () => at,
    byte,
    bytes(values: ArrayLike<number>): void {
      all.set(values, at)
      at += values.length
    },
    u32(value: number): void {
      let left = value
      for (; left >= 0x80; left = Math.floor(left / 0x80)) byte((left % 0x80) | 0x80)
      byte(left)
    },
    result: () => all.slice(0, at),
  }
}
