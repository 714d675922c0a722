/** @module `tassis config`: every setting, its value and where it came from. Never a secret. */
import type { Command } from 'commander'
import { loadConfig } from '#platform/config.ts'
import { type JsonOption, withJson } from './options.ts'
import { report, table } from './output.ts'

export function addConfigCommand(program: Command): void {
  withJson(program.command('config').description('show every setting, its value and where it came from'))
    .option('--explain', 'also what each is for and what is allowed')
    .action((options: JsonOption & { explain?: boolean }) => {
      report(
        options,
        loadConfig().report.map((setting) => ({
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
                    `${variable} = ${shownValue(value)} (${source})\n  ${description}\n  Allowed: ${allowed}.`,
                )
                .join('\n\n')
            : table(
                ['SETTING', 'VALUE', 'FROM'],
                settings.map(({ variable, value, source }) => [variable, shownValue(value), source]),
              ),
      )
    })
}

const shownValue = (value: string): string => (value === '' ? '-' : value)
