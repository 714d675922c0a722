/**
 * @module `tassis config`: every setting of this shell, its value and where it came from, and whether a running service has others. Never a secret.
 */
import type { Command } from 'commander'
import type { Config, LoadedConfig } from '#platform/config.ts'
import { callAdminSocket, RESPONSE_TIMEOUT_MS } from '../admin-socket.ts'
import { loadConfig } from '../settings.ts'
import { VERSION } from '../version.ts'
import { defineAdminCommand } from './admin-command.ts'
import { type JsonOption, withJson } from './options.ts'
import { formatTable, printResult } from './output.ts'

/** Names of the given settings that the running service has with other values. */
const findDiffering = defineAdminCommand(
  'config.differing',
  ({ opened: { app } }, provided: Readonly<Partial<Config>>) =>
    (Object.keys(provided) as (keyof Config)[]).filter(
      (name) => JSON.stringify(app.config[name]) !== JSON.stringify(provided[name]),
    ),
)

export const configAdminCommands = [findDiffering]

/** The settings that a running service on the same data has otherwise than this shell; none when no service answers. Those with a secret are left out. */
async function findDifferingVariables({ config, report: settings }: LoadedConfig): Promise<string[]> {
  const shown = settings.filter(({ value }) => value !== SECRET_PLACEHOLDER)
  const input = Object.fromEntries(shown.map(({ name }) => [name, config[name]]))
  const reply = await callAdminSocket(
    config.dataDir,
    { version: VERSION, operation: findDiffering.name, input },
    AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
  )
  // A service that refuses is of another version, which other commands tell.
  const names = new Set(reply.kind === 'ok' ? (reply.value as string[]) : [])
  return shown.filter(({ name }) => names.has(name)).map(({ variable }) => variable)
}

/** What is shown of a setting whose value is a secret. */
const SECRET_PLACEHOLDER = '(set)'

export function addConfigCommand(program: Command): void {
  withJson(program.command('config').description('show every setting, its value and where it came from'))
    .option('--explain', 'also what each is for and what is allowed')
    .action(async (options: JsonOption & { explain?: boolean }) => {
      const loaded = loadConfig()
      const differing = await findDifferingVariables(loaded)
      if (differing.length > 0)
        process.stderr.write(
          `A service runs on ${loaded.config.dataDir} with other values of ${differing.join(', ')}. These are the settings of this shell:\n`,
        )
      printResult(
        options,
        loaded.report.map((setting) => ({
          variable: setting.variable,
          toml_key: setting.tomlKey,
          value: setting.value,
          source: setting.source,
          allowed: setting.allowed,
          description: setting.doc,
        })),
        (settings) =>
          options.explain
            ? settings
                .map(
                  ({ variable, value, source, allowed, description }) =>
                    `${variable} = ${formatValue(value)} (${source})\n  ${description}\n  Allowed: ${allowed}.`,
                )
                .join('\n\n')
            : formatTable(
                ['SETTING', 'VALUE', 'FROM'],
                settings.map(({ variable, value, source }) => [variable, formatValue(value), source]),
              ),
      )
    })
}

const formatValue = (value: string): string => (value === '' ? '-' : value)
