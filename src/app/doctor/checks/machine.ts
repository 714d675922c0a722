/** @module Checks of the machine: disk, memory, open files. */
import { existsSync, readFileSync, statfsSync } from 'node:fs'
import { totalmem } from 'node:os'
import { dirname } from 'node:path'
import { describeOwner, findForeignEntry } from '#platform/disk/data-owner.ts'
import { attempt } from '#platform/errors.ts'
import { countOpenDescriptors, readDescriptorLimit } from '#platform/process/descriptors.ts'
import { formatSize as formatSetting } from '#platform/settings/setting-kinds.ts'
import { MiB } from '#platform/units.ts'
import { formatSize } from '../../cli/output.ts'
import { type DoctorContext, type Found, failure, ok, skipped, warning } from '../context.ts'

/** Below this multiple of TASSIS_MIN_FREE_DISK, new mail will soon be refused. */
const LOW_FACTOR = 4
const MIN_FREE_FILES_FRACTION = 0.05

export function checkDisk({ config }: DoctorContext): Found {
  const folder = findExisting(config.dataDir)
  const { bsize, blocks, bavail, files, ffree } = statfsSync(folder)
  const freeBytes = bavail * bsize
  const free = `${formatSize(freeBytes)} of ${formatSize(blocks * bsize)} are free on the disk of ${config.dataDir}`
  const fix = 'Free space on it, use a larger disk, or lower TASSIS_DATA_MAX_BYTES; `tassis disk` shows what uses it.'
  const space =
    freeBytes < config.minFreeDisk
      ? failure(
          `${free}: new mail is refused (TASSIS_MIN_FREE_DISK is ${formatSetting(config.minFreeDisk)}).`,
          fix,
          'space',
        )
      : freeBytes < config.minFreeDisk * LOW_FACTOR
        ? warning(`Only ${free}; below ${formatSetting(config.minFreeDisk)} new mail is refused.`, fix, 'space')
        : ok(`${free}.`, 'space')
  // Some file systems have no fixed number of files, and say 0.
  const areFilesScarce = files > 0 && ffree / files < MIN_FREE_FILES_FRACTION
  return [
    space,
    ...(areFilesScarce
      ? [
          warning(
            `The disk of ${config.dataDir} can hold only ${ffree} more files.`,
            'Delete files on it, or make a file system with more inodes.',
            'files',
          ),
        ]
      : []),
  ]
}

/** Whether everything in the data directory belongs to its owner, the user of the service. */
export async function checkOwners({ config: { dataDir }, service }: DoctorContext): Promise<Found> {
  if (!existsSync(dataDir)) return skipped('There is no data yet.')
  // Root may use everything.
  const foreign = service && process.getuid?.() === 0 ? undefined : await findForeignEntry(dataDir)
  if (!foreign) return ok('The service may use everything in the data directory.')
  return failure(
    `${foreign.path} belongs to ${describeOwner(foreign.path)}, the data directory to ${describeOwner(dataDir)}, who may be unable to use it.`,
    `Run \`${foreign.fix}\` as root.`,
  )
}

/** The folder, or the nearest one above it before the first start. */
const findExisting = (folder: string): string =>
  existsSync(folder) || dirname(folder) === folder ? folder : findExisting(dirname(folder))

const MIN_MEMORY_BYTES = 512 * MiB
/** Of the memory, for request bodies and messages; the rest is for everything else. */
const MAX_BUDGET_FRACTION = 0.5
const MAX_USED_FRACTION = 0.8

/** Memory of the machine or container, against the budget and the use of the service. */
export function checkMemory({ config, service }: DoctorContext): Found {
  const totalBytes = readMemoryLimit()
  const total = formatSize(totalBytes)
  const usedBytes = process.memoryUsage.rss()
  if (service && usedBytes > totalBytes * MAX_USED_FRACTION)
    return failure(
      `The service uses ${formatSize(usedBytes)} of ${total} memory, so the system may end it.`,
      'Give the machine or container more memory, or lower TASSIS_MEMORY_BUDGET.',
    )
  if (totalBytes < MIN_MEMORY_BYTES * 0.9)
    return warning(`There is ${total} of memory; the service wants ${formatSize(MIN_MEMORY_BYTES)}.`, 'Add memory.')
  if (config.memoryBudget > totalBytes * MAX_BUDGET_FRACTION)
    return warning(
      `TASSIS_MEMORY_BUDGET is ${formatSetting(config.memoryBudget)}, more than half of the ${total} of memory.`,
      `Set TASSIS_MEMORY_BUDGET to ${formatSetting(Math.max(16, Math.floor(totalBytes / 4 / MiB)) * MiB)}, or add memory.`,
    )
  return ok(`${total} of memory${service ? `, of which the service uses ${formatSize(usedBytes)}` : ''}.`)
}

/** The limit of the container (cgroup v2), if it has one, else the memory of the machine. */
function readMemoryLimit(): number {
  const limit = Number(attempt(() => readFileSync('/sys/fs/cgroup/memory.max', 'utf8')))
  return Number.isFinite(limit) && limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Each connection needs a file; the unit of docs/deployment.md allows 65,536. */
const MIN_FILES = 4096
const MAX_USED_FILES_FRACTION = 0.8

export function checkFileLimit({ service }: DoctorContext): Found {
  const max = readDescriptorLimit()
  if (max === undefined) return skipped('This system does not say how many files may be open.')
  const fix = 'Set LimitNOFILE=65536 in the systemd unit (Docker: --ulimit nofile=65536:65536).'
  const used = service ? countOpenDescriptors() : 0
  if (used > max * MAX_USED_FILES_FRACTION)
    return failure(`${used} of ${max} files and sockets are open; beyond that, connections are refused.`, fix)
  return max < MIN_FILES
    ? warning(`Only ${max} files and sockets may be open at the same time.`, fix)
    : ok(`${max} files and sockets may be open${service ? `, ${used} are` : ''}.`)
}
