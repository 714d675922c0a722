/**
 * @module `tassis config`: shows every setting of this shell, its value and its source, which ones differ in a running
 * service, and what signs on this machine. Never shows a secret.
 */
import { probeRsaSigner } from '#platform/crypto/rsa-signer.ts'
import type { LoadedConfig } from '#platform/settings/config.ts'
import { loadConfig, toSettingRecord } from '../settings.ts'
import { callService } from './api.ts'
import type { Command } from './command.ts'
import { formatFields, formatTable, type JsonOption, printResult } from './output.ts'

/**
 * Lists the settings whose values in a running service on the same data differ from the values in this shell; empty
 * when no service answers. Skips secrets.
 */
async function findDifferingVariables({ config, report }: LoadedConfig): Promise<string[]> {
  const reply = await callService(config, (api) => api.operator.listSettings())
  // A service that refuses the call has another version; other commands report that.
  const values = new Map(reply.kind === 'ok' ? reply.value.data.map((row) => [row.variable, row.value]) : [])
  return report
    .filter(({ variable, value }) => value !== SECRET_PLACEHOLDER && (values.get(variable) ?? value) !== value)
    .map(({ variable }) => variable)
}

const SECRET_PLACEHOLDER = '(set)'

export function addConfigCommand(program: Command): void {
  program
    .add('config', 'show every setting, its value and its source')
    .option('--explain', 'also show the meaning and the allowed values of each')
    .action(async (options: JsonOption & { explain?: boolean }) => {
      const loaded = loadConfig()
      const differing = await findDifferingVariables(loaded)
      if (differing.length > 0)
        process.stderr.write(
          `The service running on ${loaded.config.dataDir} has other values for ${differing.join(', ')}. These are the settings of this shell:\n`,
        )
      const shown = { data: loaded.report.map(toSettingRecord) }
      printResult(options, shown, ({ data }) => {
        const settings = options.explain
          ? data.map((setting) => formatFields(setting)).join('\n\n')
          : formatSettings(data)
        return `${settings}\n\n${describeSigner()}`
      })
    })
}

/** Values in full, so that they can be copied. */
const formatSettings = (settings: readonly Setting[]): string =>
  formatTable(
    ['SETTING', 'VALUE', 'FROM'],
    settings.map(({ variable, value, source }) => [variable, formatValue(value), source]),
  )

type Setting = ReturnType<typeof toSettingRecord>

/** Measured in this process; each delivery Worker measures for itself. */
function describeSigner(): string {
  const { implementation, reason } = probeRsaSigner()
  return `RSA signatures (DKIM) by ${implementation}: ${reason}.`
}

/** Not `-`, which is itself the value of some lists. */
const formatValue = (value: string): string => (value === '' ? '(empty)' : value)
