/**
 * @module Reads settings: `TASSIS_*` variables override an optional TOML file, which overrides defaults. The only
 * module that reads the environment. `app/settings.ts` declares the settings. A wrong value throws a `ConfigError` with
 * one sentence that names the setting, the value and what is allowed; `main` prints this sentence and exits with 2.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Setting, type Settings, snakeCase, withoutLogin } from './setting-kinds.ts'

export class ConfigError extends Error {}

/** Another process holds what a start needs, such as a port: the settings may be right. */
export class InUseError extends ConfigError {}

/** Device and inode of the journal's socket, as systemd passes them to services. */
export const readJournalStream = (): string | undefined => process.env['JOURNAL_STREAM']

/** The validated values of all settings; `app/settings.ts` adds them, so that the platform imports nothing above it. */
// biome-ignore lint/suspicious/noEmptyInterface: filled by a declaration in app/settings.ts
export interface Config {}

export type SettingName = keyof Config

/** The settings for one thing that an operator wants to do. */
export interface SettingGroup {
  /** What it is, as a heading. */
  readonly topic: string
  /** The page of `docs` that explains them. */
  readonly guide: string
  readonly settings: Settings
}

export interface SettingReport {
  readonly topic: string
  readonly name: SettingName
  readonly variable: string
  readonly tomlKey: string
  readonly value: string
  readonly source: 'environment' | 'file' | 'default'
  readonly setting: Setting<unknown>
}

export interface LoadedConfig {
  readonly config: Config
  readonly report: readonly SettingReport[]
}

const variableOf = (name: string): string => `TASSIS_${snakeCase(name).toUpperCase()}`

/**
 * Reads the values of all settings, in their order. `environment` defaults to the environment of the process. The TOML
 * file is the one that `TASSIS_CONFIG` names, if any. Throws ConfigError at the first invalid value or unknown name.
 */
export function readSettings(
  groups: readonly SettingGroup[],
  environment: Record<string, string | undefined> = process.env,
): LoadedConfig {
  const all = groups.flatMap(({ topic, settings }) =>
    Object.entries(settings).map(([name, setting]) => ({
      topic,
      name: name as SettingName,
      variable: variableOf(name),
      tomlKey: snakeCase(name),
      setting,
    })),
  )
  const file = environment['TASSIS_CONFIG']
  const fromFile = file ? readToml(file) : {}
  const unknownKey = Object.keys(fromFile).find((key) => !all.some(({ tomlKey }) => tomlKey === key))
  if (unknownKey)
    throw new ConfigError(`${file}: there is no setting ${unknownKey}; \`tassis config\` lists all of them.`)
  const known = new Set(['TASSIS_CONFIG', ...all.map(({ variable }) => variable)])
  const unknownVariable = Object.keys(environment).find((key) => key.startsWith('TASSIS_') && !known.has(key))
  if (unknownVariable)
    throw new ConfigError(`${unknownVariable}: there is no such setting; \`tassis config\` lists all of them.`)

  const values: Record<string, unknown> = {}
  const report = all.map((entry): SettingReport => {
    const { name, variable, tomlKey, setting } = entry
    const source = environment[variable] ? 'environment' : fromFile[tomlKey] !== undefined ? 'file' : 'default'
    if (source === 'default') {
      values[name] = typeof setting.fallback === 'function' ? setting.fallback(values) : setting.fallback
    } else {
      const rawValue = source === 'environment' ? environment[variable] : fromFile[tomlKey]
      values[name] = setting.parse(rawValue)
      if (values[name] === undefined) {
        const where = source === 'environment' ? variable : `${tomlKey} in ${file}`
        throw new ConfigError(
          `${where} is ${setting.secret ? 'set to a value that is not allowed' : `"${withoutCredentials(String(rawValue))}"`}; allowed is ${setting.allowed}.`,
        )
      }
    }
    return { ...entry, value: formatValue(setting, values[name]), source }
  })
  return { config: { ...(values as unknown as Config), dataDir: resolve(String(values['dataDir'])) }, report }
}

/** A rejected value may hold a password, perhaps not escaped; what follows `via` goes whole. */
const withoutCredentials = (text: string): string => withoutLogin(text.replace(/(\svia\s|socks5:).*/s, '$1…'))

function formatValue(setting: Setting<unknown>, value: unknown): string {
  if (setting.secret) return value === '' ? '' : '(set)'
  return setting.format?.(value) ?? String(value)
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
