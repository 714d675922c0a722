/** @module The data of a preview: JSON that a person writes, and a first proposal from the variables of a template. */
import type { Template } from '#client/api.ts'
import type { CodeProblem } from '../../parts/code-editor/editor.ts'

export type DataResult =
  | { readonly value: Readonly<Record<string, unknown>>; readonly problem?: undefined }
  | { readonly value?: undefined; readonly problem: CodeProblem }

/** The test data of a template, else a proposal, as JSON. */
export const toData = ({ test_data: data, subject, html_body: html, text_body: text }: Template): string =>
  data ? JSON.stringify(data, undefined, 2) : proposeData([subject, html ?? '', text ?? ''])

/** Parses the data; an empty text is an empty object. */
export function parseData(text: string): DataResult {
  if (text.trim() === '') return { value: {} }
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { value: value as Record<string, unknown> }
    return { problem: { line: 1, message: 'The data must be a JSON object, such as {"user": {"name": "Ada"}}.' } }
  } catch (error) {
    const { message } = error as Error
    // Most browsers say the line.
    const line = /\bline (\d+)/.exec(message)?.[1]
    return { problem: { line: line === undefined ? undefined : Number(line), message: `This is not JSON: ${message}` } }
  }
}

/** A value that data can be made of. */
type Sample = string | Sample[] | { [name: string]: Sample }

/** Of limited length, so that a source of open brackets takes no longer than any other. */
const TAG = /\{\{(?<print>[^{}]{0,500})\}\}|\{%-?(?<statement>[^{}%]{0,500})%\}/g
const LOOP = /^for\s+(?<item>[A-Za-z_]\w*)\s+in\s+(?<list>[A-Za-z_][\w.]*)/
const PATH = /(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?![\w.(])/g
const QUOTED = /"[^"]*"|'[^']*'/g
/** `x|filter`, `x is test` and keyword arguments are no variables. */
const NOT_VARIABLES = /\|\s*[A-Za-z_]\w*|\bis\s+(?:not\s+)?[A-Za-z_]\w*|(?<!\w)[A-Za-z_]\w*\s*=(?!=)/g
const WORDS = new Set(
  'and or not in is if else elif endif for endfor set endset true false none True False None loop range with endwith macro endmacro call endcall filter endfilter raw endraw do block endblock autoescape endautoescape dict namespace cycler joiner lipsum recursive'.split(
    ' ',
  ),
)
const MAX_DEPTH = 8
const MAX_VARIABLES = 500

/** Data with a value for each variable of the sources, as indented JSON: a proposal, which may be wrong. */
export function proposeData(sources: readonly string[]): string {
  const data: { [name: string]: Sample } = {}
  let left = MAX_VARIABLES
  for (const source of sources) {
    /** What the names of loops stand for: an item of a list. */
    const items = new Map<string, readonly string[]>()
    const own = new Set<string>()
    for (const { groups } of source.matchAll(TAG)) {
      const statement = groups?.['statement']?.trim() ?? ''
      const loop = LOOP.exec(statement)?.groups
      if (loop) items.set(loop['item'] ?? '', [...toPath(loop['list'] ?? '', items), '[]'])
      const assigned = /^(?:set|macro)\s+(\w+)/.exec(statement)?.[1]
      if (assigned !== undefined) own.add(assigned)
      const expression = (groups?.['print'] ?? statement).replace(QUOTED, '').replace(NOT_VARIABLES, ' ')
      for (const [name] of expression.matchAll(PATH)) {
        const path = toPath(name, items)
        if (WORDS.has(name.split('.')[0] ?? '') || own.has(name.split('.')[0] ?? '') || left-- <= 0) continue
        addSample(data, path)
      }
    }
  }
  return JSON.stringify(data, undefined, 2)
}

/** The path of a variable from the data; `[]` is an item of a list. */
function toPath(name: string, items: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const [first = '', ...rest] = name.split('.')
  return [...(items.get(first) ?? [first]), ...rest]
}

function addSample(data: { [name: string]: Sample }, path: readonly string[]): void {
  if (path.length > MAX_DEPTH || path.some((name) => name === '__proto__')) return
  let place: Sample = data
  for (const [index, name] of path.entries()) {
    if (typeof place === 'string') return
    const key = name === '[]' ? 0 : name
    const next = path[index + 1]
    const holder = place as { [key: string | number]: Sample }
    const known = Object.hasOwn(holder, key) ? holder[key] : undefined
    // A name with fields is an object even where it is also printed or tested alone.
    if (known === undefined || (typeof known === 'string' && next !== undefined))
      holder[key] = next === undefined ? toSample(path) : next === '[]' ? [] : {}
    place = holder[key] as Sample
  }
}

function toSample(path: readonly string[]): string {
  const name = path.findLast((part) => part !== '[]') ?? ''
  if (/url|link|href/i.test(name)) return 'https://example.com/'
  if (/e?mail/i.test(name)) return 'ada@example.com'
  if (/(^|_)(at|on|date|since|until)$/i.test(name)) return '2026-01-31'
  if (/^(first_?)?name$/i.test(name)) return 'Ada'
  return name
}

/** The data with a value for one more variable; undefined when the data is no JSON or has no place for it. */
export function addVariable(text: string, variable: string): string | undefined {
  const { value } = parseData(text)
  if (!value || !/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(variable)) return undefined
  const data = structuredClone(value) as { [name: string]: Sample }
  const path = variable.split('.')
  let holder: unknown = data
  for (const name of path.slice(0, -1)) {
    if (!Object.hasOwn(holder as object, name)) (holder as { [name: string]: Sample })[name] = {}
    holder = (holder as { [name: string]: unknown })[name]
    if (typeof holder !== 'object' || holder === null || Array.isArray(holder)) return undefined
  }
  ;(holder as { [name: string]: Sample })[path.at(-1) ?? ''] ??= toSample(path)
  return JSON.stringify(data, undefined, 2)
}
