/**
 * @module What a request log may keep of a refused body: its shape, with the names of its fields and those short values
 * with which a person finds his mistake. Never contents of mail, passwords, keys, tokens or secrets: only values of
 * fields on a list are shown, and below a field that is not, no value at all. Pure.
 */
import { isJsonObject } from '../json-object.ts'

const MAX_SUMMARY_LENGTH = 2048
const MAX_VALUE_LENGTH = 100
const MAX_FIELDS = 40
const MAX_ITEMS = 5
const MAX_DEPTH = 5

/** What looks like the name of a field; anything else may be content, such as an address. */
const FIELD_NAME = /^[\w.\-[\]]{1,60}$/

/** Fields whose short values are shown, in lower case without separators. */
const SHOWN = new Set(
  (
    'from to cc bcc replyto email emails address addresses recipient recipients fromname toname filename contenttype ' +
    'name alias slug domain domains template templateid templatealias stream streamid messagestream listid lists tag tags ' +
    'type types status event events eventtypes sendat scheduledat delay timezone language locale role scope scopes ' +
    'reason action kind limit page perpage cursor operator field fields category network networks expiresat returnpath ' +
    'attachments messages personalizations'
  ).split(' '),
)

const isShown = (name: string): boolean => SHOWN.has(name.replaceAll(/[-_]/g, '').toLowerCase())

/** What is shown of a value: of one without a name, only fields that are. */
type Shown = 'values' | 'fields' | 'nothing'

/** JSON of at most MAX_SUMMARY_LENGTH characters; undefined: there is no body. */
export function summariseBody(body: unknown): string | undefined {
  if (body === undefined) return undefined
  let left = MAX_SUMMARY_LENGTH
  /** Counts what is about to be written; false: there is no space left. */
  const take = (length: number): boolean => {
    left -= length
    return left > 0
  }
  const summarise = (value: unknown, shows: Shown, depth: number): unknown => {
    if (value === null || typeof value === 'boolean') return value
    if (value instanceof Uint8Array) return `[${value.length} bytes]`
    if (typeof value === 'string')
      return shows === 'values' && value.length <= MAX_VALUE_LENGTH ? value : `[${value.length} characters]`
    if (Array.isArray(value)) {
      if (depth === 0) return `[${value.length} items]`
      const shown = value.slice(0, MAX_ITEMS).flatMap((item) => {
        const short = summarise(item, shows, depth - 1)
        return take(sizeOf(short)) ? [short] : []
      })
      return shown.length < value.length ? [...shown, `[${value.length - shown.length} more]`] : shown
    }
    if (!isJsonObject(value)) return shows === 'values' ? value : `[${typeof value}]`
    const names = Object.keys(value)
    if (depth === 0) return `[${names.length} fields]`
    const shown: Record<string, unknown> = Object.create(null)
    let count = 0
    for (const name of names.slice(0, MAX_FIELDS)) {
      const short = summarise(value[name], shows !== 'nothing' && isShown(name) ? 'values' : 'nothing', depth - 1)
      const key = FIELD_NAME.test(name) ? name : '[unknown field]'
      if (!take(key.length + 4 + sizeOf(short))) break
      shown[key] = short
      count++
    }
    if (count < names.length) shown['…'] = `[${names.length - count} more]`
    return shown
  }
  return JSON.stringify(summarise(body, 'fields', MAX_DEPTH))
}

/** What a value adds to the length; that of objects and arrays was counted with their parts. */
const sizeOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 2 : JSON.stringify(value).length + 1
