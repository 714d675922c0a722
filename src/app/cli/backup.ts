/**
 * @module `tassis backup`: writes or verifies a backup. Works with and without a running service: it reads the data
 * itself, so the backup belongs to the user who runs it, and asks a running service only to delete no content meanwhile.
 */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { callAdminSocket, RESPONSE_TIMEOUT_MS } from '../admin-socket.ts'
import { isArchiveName } from '../backup/archive.ts'
import type { BackupReport } from '../backup/job.ts'
import { readKeyText } from '../backup/key.ts'
import { compareFiles, openBackup } from '../backup/reader.ts'
import { type HoldHandle, runBackup } from '../backup/run.ts'
import { loadConfig } from '../settings.ts'
import { VERSION } from '../version.ts'
import { CommandError, defineAdminCommand } from './admin-command.ts'
import { requireData } from './call.ts'
import { formatSize } from './disk.ts'
import { createWholeNumberParser, type JsonOption, withJson } from './options.ts'
import { formatCount, formatUtc, printResult } from './output.ts'

interface HoldInput {
  readonly id: string
}

const hold = defineAdminCommand('backup.hold', ({ opened: { deletionHold } }, { id }: HoldInput) =>
  deletionHold.renew(id),
)

const release = defineAdminCommand('backup.release', ({ opened: { deletionHold } }, { id }: HoldInput) =>
  deletionHold.release(id),
)

export const backupAdminCommands = [hold, release]

interface BackupOptions extends JsonOption {
  readonly withKey?: boolean
  readonly keep?: number
  readonly verify?: boolean
}

const MAX_KEPT = 10_000

export function addBackupCommand(program: Command): void {
  withJson(
    program
      .command('backup')
      .description('write a backup of the data directory while the service runs, or verify one')
      .argument('<path>', 'folder in which the backup gets a folder of its own, or a file ending in .tar or .tar.zst')
      .option('--with-key', 'include the master key; whoever has the backup can then read everything in it')
      .option(
        '--keep <count>',
        'remove older backups in the folder beyond this number',
        createWholeNumberParser(1, MAX_KEPT),
      )
      .option('--verify', 'compare an existing backup with its manifest; exit code 1 if it is damaged'),
  ).action(async (path: string, options: BackupOptions) => {
    if (options.verify) await verify(path, options)
    else printResult(options, await write(path, options), formatReport)
  })
}

async function write(path: string, { withKey = false, keep }: BackupOptions): Promise<BackupReport> {
  const { config } = loadConfig()
  requireData(config)
  const isArchive = isArchiveName(path)
  if (isArchive && keep !== undefined) throw new CommandError('--keep is for a folder of backups, not for a file.')
  const job = {
    dataDir: config.dataDir,
    hostname: config.hostname,
    target: resolve(path),
    isArchive,
    keep,
    masterKey: withKey ? readKeyText(config) : undefined,
  }
  return runBackup(job, createHold(config), systemClock)
}

/** The hold in the running service, if there is one. */
function createHold({ dataDir }: Config): HoldHandle {
  const id = formatUuid(newUuid())
  const call = (operation: string) =>
    callAdminSocket(dataDir, { version: VERSION, operation, input: { id } }, AbortSignal.timeout(RESPONSE_TIMEOUT_MS))
  let isFirst = true
  return {
    async renew() {
      const reply = await call(hold.name)
      // Later failures matter less: a hold lasts for minutes, and a service that has just started deletes nothing yet.
      if (isFirst && reply.kind === 'refused') throw new CommandError(reply.message)
      isFirst = false
    },
    release: () => call(release.name),
  }
}

function formatReport(report: BackupReport): string {
  const { totalBytes, writtenBytes, removed } = report
  const shared = writtenBytes < totalBytes ? `, of which ${formatSize(writtenBytes)} are new` : ''
  return [
    `Backup written and verified: ${report.path}`,
    `  ${formatCount(report.files, 'file')}, ${formatSize(totalBytes)}${shared}, in ${(report.durationMs / 1000).toFixed(1)} s`,
    `  state of ${formatUtc(report.takenAt)}`,
    report.hasKey
      ? '  with the master key: keep it where nobody else can read it'
      : '  without the master key: keep a copy of that apart, or nothing in the backup can be used',
    ...report.warnings.map((warning) => `  warning: ${warning}`),
    ...removed.map((name) => `  removed the old backup ${name}`),
  ].join('\n')
}

async function verify(path: string, options: BackupOptions): Promise<void> {
  const reader = await openBackup(path)
  const differences = await compareFiles(reader)
  const problems = differences.length === 0 ? (reader.check?.() ?? []) : differences
  const { manifest } = reader
  const result = {
    ok: problems.length === 0,
    path: resolve(path),
    taken_at: manifest.taken_at,
    tassis: manifest.tassis,
    hostname: manifest.hostname,
    has_key: manifest.has_key,
    files: manifest.files.length,
    total_bytes: manifest.files.reduce((sum, { size }) => sum + size, 0),
    problems,
    warnings: manifest.warnings,
  }
  printResult(options, result, () =>
    [
      result.ok
        ? `${reader.name} is as it was written: ${formatCount(result.files, 'file')}, ${formatSize(result.total_bytes)}, state of ${formatUtc(result.taken_at)}`
        : `${reader.name} is damaged; use another backup:`,
      ...problems.map((problem) => `  ${problem}`),
      ...result.warnings.map((warning) => `  warning at the time of the backup: ${warning}`),
    ].join('\n'),
  )
  if (!result.ok) process.exitCode = 1
}
