/**
 * @module Reads settings: `TASSIS_*` variables override an optional TOML file, which overrides defaults. The only
 * module that reads the environment. The `settings.ts` of the platform and of each feature declare the settings;
 * `app/settings.ts` joins them. A wrong value throws a `ConfigError` with one sentence that names the setting, the
 * value and what is allowed; `main` prints this sentence and exits with 2.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { perOwner } from './per-owner.ts'
import { formatSize, type Setting } from './setting-kinds.ts'
import type { diskSettings, networkSettings, processSettings, requestSettings, serviceSettings } from './settings.ts'

export class ConfigError extends Error {}

/** Device and inode of the journal's socket, as systemd passes them to services. */
export const readJournalStream = (): string | undefined => process.env['JOURNAL_STREAM']

/**
 * Settings by name. The name of a variable derives from the name of its setting: `httpAddr` is set by
 * `TASSIS_HTTP_ADDR`.
 */
export type Settings = Readonly<Record<string, Setting<unknown>>>

/** The parsed values of a group of settings. */
export type SettingValues<S extends Settings> = {
  readonly [K in keyof S]: NonNullable<ReturnType<S[K]['parse']>>
}

/**
 * The validated values of all settings. This interface declares the settings of the platform; each feature adds its own
 * in its `settings.ts` with `declare module '#platform/config.ts'`, so that the platform imports no feature.
 */
export interface Config
  extends SettingValues<typeof serviceSettings>,
    SettingValues<typeof networkSettings>,
    SettingValues<typeof processSettings>,
    SettingValues<typeof requestSettings>,
    SettingValues<typeof diskSettings> {}

export type SettingName = keyof Config

export interface SettingReport {
  readonly name: SettingName
  readonly variable: string
  readonly tomlKey: string
  readonly value: string
  readonly source: 'environment' | 'file' | 'default'
  readonly doc: string
  readonly allowed: string
}

export interface LoadedConfig {
  readonly config: Config
  readonly report: readonly SettingReport[]
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)
const variableOf = (name: string): string => `TASSIS_${snakeCase(name).toUpperCase()}`

/**
 * Reads the values of `settings`, in their order. `settings` must contain all settings of the program, because an
 * unknown variable or key is an error. `environment` defaults to the environment of the process. The TOML file is the
 * one that `TASSIS_CONFIG` names, if any. Throws ConfigError at the first invalid value or unknown name.
 */
export function readSettings(
  settings: Settings,
  environment: Record<string, string | undefined> = process.env,
): LoadedConfig {
  const names = Object.keys(settings) as SettingName[]
  const file = environment['TASSIS_CONFIG']
  const fromFile = file ? readToml(file) : {}
  const unknownKey = Object.keys(fromFile).find((key) => !names.some((name) => snakeCase(name) === key))
  if (unknownKey)
    throw new ConfigError(`${file}: there is no setting ${unknownKey}; \`tassis config\` lists all of them.`)
  const known = new Set(['TASSIS_CONFIG', ...names.map(variableOf)])
  const unknownVariable = Object.keys(environment).find((key) => key.startsWith('TASSIS_') && !known.has(key))
  if (unknownVariable)
    throw new ConfigError(`${unknownVariable}: there is no such setting; \`tassis config\` lists all of them.`)

  const values: Partial<Record<SettingName, unknown>> = {}
  const report: SettingReport[] = []
  for (const name of names) {
    const setting = settings[name] as Setting<unknown>
    const variable = variableOf(name)
    const tomlKey = snakeCase(name)
    const fromEnvironment = environment[variable]
    const source =
      fromEnvironment !== undefined && fromEnvironment !== ''
        ? 'environment'
        : fromFile[tomlKey] !== undefined
          ? 'file'
          : 'default'
    if (source === 'default') {
      values[name] = typeof setting.fallback === 'function' ? setting.fallback(values) : setting.fallback
    } else {
      const rawValue = source === 'environment' ? fromEnvironment : fromFile[tomlKey]
      const value = setting.parse(rawValue)
      if (value === undefined) {
        const where = source === 'environment' ? variable : `${tomlKey} in ${file}`
        throw new ConfigError(
          `${where} is ${setting.secret ? 'set to a value that is not allowed' : `"${withoutCredentials(String(rawValue))}"`}; allowed is ${setting.allowed}.`,
        )
      }
      values[name] = value
    }
    report.push({
      name,
      variable,
      tomlKey,
      value: formatValue(setting, values[name]),
      source,
      doc: setting.doc,
      allowed: setting.allowed,
    })
  }
  const config = { ...(values as Config), dataDir: resolve(String(values.dataDir)) }
  sourcesOf(config).set = new Set(report.filter(({ source }) => source !== 'default').map(({ name }) => name))
  return { config, report }
}

const sourcesOf = perOwner((_: object): { set?: ReadonlySet<SettingName> } => ({}))

/** Whether a setting has another source than its default; undefined for values that were not read here. */
export const isSet = (config: object, name: SettingName): boolean | undefined => sourcesOf(config).set?.has(name)

/** A rejected URL may hold a password: `https://user:password@host` becomes `https://…@host`. */
const withoutCredentials = (text: string): string => text.replace(/\/\/[^/@\s]*@/g, '//…@')

function formatValue(setting: Setting<unknown>, value: unknown): string {
  if (setting.secret) return value === '' ? '' : '(set)'
  if (Array.isArray(value)) return value.join(',')
  return setting.allowed.startsWith('a size') ? formatSize(value as number) : String(value)
}

function readToml(path: string): Record<string, unknown> {
  let content: string
  try {
    content = readFileSync(path, 'utf8')
  } catch {
    throw new ConfigError(
      `TASSIS_CONFIG is "${path}", which cannot be read; give the path of a readable TOML file or unset it.`,
    )
  }
  try {
    return flatten(Bun.TOML.parse(content) as Record<string, unknown>)
  } catch (error) {
    throw new ConfigError(`${path} is not valid TOML: ${error instanceof Error ? error.message : String(error)}.`)
  }
}

/** `[sending] unverified = "reject"` and `sending_unverified = "reject"` are the same setting. */
function flatten(table: Record<string, unknown>, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(table).flatMap(([key, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(flatten(value as Record<string, unknown>, `${prefix}${key}_`))
        : [[`${prefix}${key}`, value]],
    ),
  )
}
