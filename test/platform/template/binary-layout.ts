/** @module Reads what a host must know of a WebAssembly module: sections, imports and exports with their signatures. */

export interface BinaryLayout {
  /** Names of the sections, in order. */
  readonly sections: readonly string[]
  /** One line each, in alphabetical order: `name(params) -> results`, or a name and a kind. */
  readonly imports: readonly string[]
  readonly exports: readonly string[]
}

const SECTIONS = 'custom type import function table memory global export start element code data data-count'.split(' ')
const KINDS = ['function', 'table', 'memory', 'global']
const HEADER_BYTES = 8
const TYPES: Readonly<Record<number, string>> = { 127: 'i32', 126: 'i64', 125: 'f32', 124: 'f64' }

export function readLayout(wasm: Uint8Array): BinaryLayout {
  const signatures: string[] = []
  const typeOfFunction: number[] = []
  const sections: string[] = []
  const imports: string[] = []
  const exports: string[] = []
  const read = createReader(wasm.subarray(HEADER_BYTES))
  const describe = (name: string, kind: number, type: number): string =>
    kind === 0 ? `${name}${signatures[type] ?? '?'}` : `${name}: ${KINDS[kind] ?? kind}`

  while (!read.isAtEnd()) {
    const id = read.byte()
    const body = createReader(read.bytes(read.number()))
    const name = SECTIONS[id] ?? `unknown section ${id}`
    sections.push(name)
    if (name === 'custom') continue
    const count = name === 'start' ? 0 : body.number()
    if (name === 'type')
      for (let i = 0; i < count; i++) {
        body.byte()
        signatures.push(`(${body.types()}) -> (${body.types()})`)
      }
    else if (name === 'import')
      for (let i = 0; i < count; i++) {
        const label = `${body.text()}.${body.text()}`
        const kind = body.byte()
        const type = body.number()
        imports.push(describe(label, kind, type))
        if (kind === 0) typeOfFunction.push(type)
      }
    else if (name === 'function') for (let i = 0; i < count; i++) typeOfFunction.push(body.number())
    else if (name === 'export')
      for (let i = 0; i < count; i++) {
        const label = body.text()
        const kind = body.byte()
        exports.push(describe(label, kind, typeOfFunction[body.number()] ?? -1))
      }
  }
  return { sections, imports: imports.sort(), exports: exports.sort() }
}

interface Reader {
  isAtEnd(): boolean
  byte(): number
  bytes(length: number): Uint8Array
  /** LEB128, unsigned. */
  number(): number
  text(): string
  types(): string
}

function createReader(bytes: Uint8Array): Reader {
  let at = 0
  const take = (length: number): Uint8Array => {
    at += length
    return bytes.subarray(at - length, at)
  }
  const byte = (): number => take(1)[0] ?? 0
  const number = (): number => {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const next = byte()
      value += (next & 0x7f) * 2 ** shift
      if (next < 0x80) return value
    }
  }
  return {
    isAtEnd: () => at >= bytes.length,
    byte,
    bytes: take,
    number,
    text: () => Buffer.from(take(number())).toString(),
    types: () => [...take(number())].map((type) => TYPES[type] ?? `0x${type.toString(16)}`).join(', '),
  }
}
