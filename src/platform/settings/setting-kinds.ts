/**
 * @module Kinds of settings: each parses the text of a variable or a TOML value, and describes the values it allows.
 * The settings themselves are in `app/settings.ts`.
 */
import { isIP } from 'node:net'
import { GiB, KiB, MiB } from '#platform/units.ts'

export interface Setting<T> {
  /** The default value; a function when the default depends on the machine or on other settings. */
  readonly fallback: T | ((others: Record<string, unknown>) => T)
  /** Parses the text of a variable or the value of a TOML key; undefined means "not allowed". */
  readonly parse: (value: unknown) => T | undefined
  /** Formats a value as `parse` reads it, apart from passwords; default: as text. */
  format?(value: T): string
  readonly allowed: string
  readonly doc: string
  /** Describes a default that depends on the machine or on other settings. */
  readonly fallbackDoc?: string
  /** True for a secret: `tassis config` prints only whether it is set. */
  readonly secret?: boolean
}

/** Settings by name. */
export type Settings = Readonly<Record<string, Setting<unknown>>>

/** The parsed values of settings. */
export type SettingValues<S extends Settings> = {
  readonly [K in keyof S]: NonNullable<ReturnType<S[K]['parse']>>
}

export const secret = <T>(setting: Setting<T>): Setting<T> => ({ ...setting, secret: true })

const toText = (value: unknown): string | undefined =>
  typeof value === 'string'
    ? value.trim()
    : typeof value === 'number' || typeof value === 'boolean'
      ? String(value)
      : undefined

export const text = (fallback: string, doc: string, allowed = 'any text'): Setting<string> =>
  checked(fallback, allowed, doc, () => true)

/** A file or folder; empty: none is named. */
export const path = (doc: string): Setting<string> => text('', doc, 'a path')

export const choice = <const T extends string>(values: readonly T[], fallback: T, doc: string): Setting<T> => ({
  fallback,
  allowed: values.join(', '),
  doc,
  parse: (value) => values.find((v) => v === toText(value)),
})

const toFlag = (value: unknown): boolean | undefined =>
  ({ true: true, '1': true, yes: true, on: true, false: false, '0': false, no: false, off: false })[
    toText(value)?.toLowerCase() ?? ''
  ]

export const flag = (fallback: boolean, doc: string): Setting<boolean> => ({
  fallback,
  allowed: 'true or false',
  doc,
  parse: toFlag,
})

/** A setting that is on, off, or a third value such as `loopback`. */
export const flagOr = <const T extends string>(
  between: T,
  fallback: boolean | T,
  doc: string,
): Setting<boolean | T> => ({
  fallback,
  allowed: `true, ${between} or false`,
  doc,
  parse: (value) => (toText(value)?.toLowerCase() === between ? between : toFlag(value)),
})

export const integer = (fallback: number, min: number, max: number, doc: string): Setting<number> => ({
  fallback,
  allowed: `a whole number from ${min} to ${max}`,
  doc,
  parse: (value) => {
    const digits = toText(value)
    if (digits === undefined || !/^\d{1,15}$/.test(digits)) return undefined
    const number = Number(digits)
    return number >= min && number <= max ? number : undefined
  },
})

/** The largest first. */
const SIZE_UNITS: readonly (readonly [letter: string, bytes: number])[] = [
  ['G', GiB],
  ['M', MiB],
  ['K', KiB],
]

export const size = (fallback: number, min: number, max: number, doc: string): Setting<number> => ({
  fallback,
  format: formatSize,
  allowed: `a size such as 512MiB, from ${formatSize(min)} to ${formatSize(max)}`,
  doc,
  parse: (value) => {
    const match = /^(\d{1,12})\s*(?:([KMG])(?:I?B)?|B)?$/i.exec(toText(value) ?? '')
    if (!match) return undefined
    const [, unit = 1] = SIZE_UNITS.find(([letter]) => letter === match[2]?.toUpperCase()) ?? []
    const bytes = Number(match[1]) * unit
    return bytes >= min && bytes <= max ? bytes : undefined
  },
})

/** Formats bytes in the largest unit that divides them: `512MiB`. */
export function formatSize(bytes: number): string {
  const [letter, unit] = SIZE_UNITS.find(([, size]) => bytes > 0 && bytes % size === 0) ?? []
  return unit === undefined ? `${bytes}B` : `${bytes / unit}${letter}iB`
}

const toItems = (value: unknown): string[] =>
  (Array.isArray(value) ? value.map((v) => toText(v) ?? '') : (toText(value) ?? '\0').split(','))
    .map((item) => item.trim())
    .filter((item) => item !== '')

/** Text of an empty list that is not the default, because an empty variable counts as not set. */
const NO_ITEMS = 'none'

/** A list with a default can be emptied with `none`. */
export const list = (
  doc: string,
  allowed: string,
  isItem: (item: string) => boolean,
  fallback: readonly string[] = [],
): Setting<readonly string[]> => ({
  fallback,
  format: (items) => (fallback.length > 0 && items.length === 0 ? NO_ITEMS : items.join(',')),
  allowed,
  doc,
  parse: (value) => {
    const items = toItems(value)
    if (fallback.length > 0 && items.length === 1 && items[0] === NO_ITEMS) return []
    return items.every(isItem) ? items : undefined
  },
})

/** `smtpPort` is `smtp_port` in the TOML file and in lists of names. */
export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)

export const isCidr = (value: string): boolean => {
  const [address = '', prefix] = value.split('/')
  const family = isIP(address)
  return (
    family !== 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128)))
  )
}

export const HOST_NAME = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i

/** Splits `host:port`, `[v6]:port` or, with a default port, a bare host. Undefined for any other text. */
export function parseHostPort(value: string, defaultPort?: number): { host: string; port: number } | undefined {
  if (defaultPort !== undefined && (isIP(value) !== 0 || HOST_NAME.test(value)))
    return { host: value, port: defaultPort }
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+)):(\d{1,5})$/i.exec(value)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || port > 65_535 || (isIP(host) === 0 && !HOST_NAME.test(host))) return undefined
  return { host, port }
}

/** Returns the URL to use from this machine: the unspecified address is reached as loopback. */
export function toReachableUrl(hostname: string, port: number): string {
  const host = hostname === '0.0.0.0' ? '127.0.0.1' : hostname === '::' ? '::1' : hostname
  return `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
}

export const checked = (
  fallback: Setting<string>['fallback'],
  allowed: string,
  doc: string,
  isValid: (v: string) => boolean,
  fallbackDoc?: string,
): Setting<string> => ({
  fallback,
  ...(fallbackDoc !== undefined && { fallbackDoc }),
  allowed,
  doc,
  parse: (value) => {
    const given = toText(value)
    return given !== undefined && isValid(given) ? given : undefined
  },
})

/** A setting that is empty unless it is used. */
export const optional = (allowed: string, doc: string, isValid: (v: string) => boolean): Setting<string> =>
  checked('', allowed, doc, (value) => value === '' || isValid(value))

/** `https://user:password@host` becomes `https://…@host`: everything before the last `@`, because a password may have others. */
export function withoutLogin(url: string): string {
  const [start, end] = [url.indexOf('//'), url.lastIndexOf('@')]
  return start >= 0 && end > start ? `${url.slice(0, start)}//…${url.slice(end)}` : url
}

export const isHttpUrl = (value: string): boolean => {
  const url = URL.parse(value)
  return (
    url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.username === '' && url.search === ''
  )
}

export const isRelayUrl = (value: string): boolean => {
  const url = URL.parse(value)
  return url !== null && (url.protocol === 'smtp:' || url.protocol === 'smtps:') && url.hostname !== ''
}
