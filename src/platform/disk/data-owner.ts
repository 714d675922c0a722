/**
 * @module Whose files the data are. Everything in a data directory belongs to its owner, the user of the service, also
 * what root writes there: commands run as that user, and what else root wrote is given to that user at the end.
 */
import { accessSync, constants, lchownSync, lstatSync, readdirSync, readFileSync, type Stats, statSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { attempt, systemCodeOf } from '#platform/errors.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { quoteShellWord } from '#platform/text.ts'
import { isStorageFailure } from './storage-errors.ts'

type Owner = Pick<Stats, 'uid' | 'gid'>

/** Returns the owner of a path, or of the nearest visible parent folder. */
const findOwner = (path: string): Owner =>
  attempt(() => statSync(path)) ?? (dirname(path) === path ? { uid: -1, gid: -1 } : findOwner(dirname(path)))

/** Returns `user root`, or `user 1001` when the system has no name for the uid. */
export function describeOwner(path: string): string {
  const { uid } = findOwner(path)
  return uid === -1 ? 'another user' : `user ${findName('passwd', uid)}`
}

/** Looks up the name of a user or a group; without one, returns the number. */
function findName(file: 'passwd' | 'group', id: number): string {
  const lines = attempt(() => readFileSync(`/etc/${file}`, 'utf8'))?.split('\n') ?? []
  return lines.map((line) => line.split(':')).find(([, , known]) => known === String(id))?.[0] ?? String(id)
}

const formatChown = (dataDir: string, { uid, gid }: Owner): string =>
  `chown -R ${findName('passwd', uid)}:${findName('group', gid)} ${quoteShellWord(dataDir)}`

/**
 * Calls `use` with the rights of the user to whom the data belong, if root runs this process: so all files are those of
 * that user at every moment, even if the process is killed.
 * @param path where `use` writes; not changed unless it is for the same user
 */
export async function runAsOwner<T>(dataDir: string, use: () => Promise<T>, path = dataDir): Promise<T> {
  const { uid, gid } = findOwner(dataDir)
  if (process.geteuid?.() !== 0 || uid <= 0 || findOwner(path).uid !== uid) return use()
  const callersGroup = process.getegid?.() ?? 0
  // The group first: another user than root may not change it.
  process.setegid?.(gid)
  process.seteuid?.(uid)
  try {
    return await use()
  } finally {
    process.seteuid?.(0)
    process.setegid?.(callersGroup)
  }
}

/** Within `runAsOwner`: calls `use` as root again, for files outside of the data directory. */
export function runAsCaller<T>(use: () => T): T {
  const owner = process.geteuid?.() ?? 0
  if (process.getuid?.() !== 0 || owner === 0) return use()
  process.seteuid?.(0)
  try {
    return use()
  } finally {
    process.seteuid?.(owner)
  }
}

/** Gives a file that root wrote in the data directory to the owner of the directory. */
export function giveFileToOwner(dataDir: string, path: string): void {
  const { uid, gid } = findOwner(dataDir)
  if (process.geteuid?.() === 0 && uid > 0) lchownSync(path, uid, gid)
}

/** Gives what root wrote in the data directory to the owner of the directory. */
export function giveToOwner(dataDir: string): void {
  const { uid, gid } = findOwner(dataDir)
  if (process.geteuid?.() !== 0 || uid <= 0) return
  // None when the directory was never created.
  for (const name of attempt(() => readdirSync(dataDir, { recursive: true, encoding: 'utf8' })) ?? []) {
    const path = join(dataDir, name)
    // Never follows a link, which may lead out of the directory. A running service may have removed an entry since.
    if (name !== LOST_AND_FOUND && lstatSync(path, { throwIfNoEntry: false })?.uid === 0) lchownSync(path, uid, gid)
  }
}

/** Belongs to the file system. */
const LOST_AND_FOUND = 'lost+found'

/** What Tassis opens in a data directory and in its content stores. */
const OWN_ENTRIES =
  /^(?:(?:tassis|capture|\d{4}-\d{2})\.db(?:-wal|-shm)?|(?:content|raw-mail)(?:\.ids)?|\d{4}-\d{2}|incoming|(?:backup-)?lock|(?:instance|replica|backup-state)\.json|[a-z]+-tls\.pem|master\.key)$/

/**
 * Throws ConfigError with the command to run when this process may not use an entry of the data directory.
 * @param suspects further entries
 */
export function requireUsableData(dataDir: string, suspects: readonly string[] = []): void {
  const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0]
  const path = uid !== 0 && [dataDir, ...listOwnEntries(dataDir), ...suspects].find((entry) => !isUsable(entry, uid))
  if (path === false || path === undefined) return
  const user = findName('passwd', uid)
  const problem = `User ${user} may not use ${path}, which belongs to ${describeOwner(path)}`
  if (findOwner(path).uid === uid)
    throw new ConfigError(`${problem}; allow it: \`chmod -R u+rwX ${quoteShellWord(dataDir)}\`.`)
  const owner = findOwner(dataDir)
  if (owner.uid === uid) throw new ConfigError(`${problem}; as root, run \`${formatChown(dataDir, owner)}\`.`)
  throw new ConfigError(
    `${problem}; run this as the user of the service, or, if that is ${user}, run \`${formatChown(dataDir, { uid, gid })}\` as root.`,
  )
}

const listOwnEntries = (dataDir: string): string[] =>
  [dataDir, join(dataDir, 'content'), join(dataDir, 'raw-mail')].flatMap((folder) =>
    // None in a folder that does not exist, or is itself the entry that may not be used.
    (attempt(() => readdirSync(folder)) ?? [])
      .filter((name) => OWN_ENTRIES.test(name))
      .map((name) => join(folder, name)),
  )

function isUsable(path: string, uid: number): boolean {
  // The system checks the rights of the user who started the process, which is root while a command runs as the owner.
  if (process.getuid?.() === 0) return [undefined, uid].includes(lstatSync(path, { throwIfNoEntry: false })?.uid)
  const isWritten = !/\.(?:key|pem|json)$/.test(path)
  try {
    accessSync(path, constants.R_OK | (isWritten ? constants.W_OK : 0))
    return true
  } catch (error) {
    return !isDenial(error)
  }
}

const isDenial = (error: unknown): boolean => ['EACCES', 'EPERM'].includes(systemCodeOf(error))

/** Turns an error of files that this process may not use into a ConfigError that says so; returns any other unchanged. */
export function explainDenial(dataDir: string, error: unknown): unknown {
  if (!isStorageFailure(error)) return error
  const path = error instanceof Error && 'path' in error ? String(error.path) : ''
  try {
    requireUsableData(dataDir, isDenial(error) && path.startsWith(`${dataDir}/`) ? [path] : [])
    return error
  } catch (denial) {
    return denial
  }
}

/** Enough for a mistake to be seen; a data directory may hold millions of files. */
const MAX_ENTRIES_READ = 20_000

/** Returns an entry of the data directory that belongs to another user, and the command that mends it. */
export async function findForeignEntry(dataDir: string): Promise<{ path: string; fix: string } | undefined> {
  const owner = statSync(dataDir)
  let read = 0
  for await (const { parentPath, name } of await opendir(dataDir, { recursive: true })) {
    const path = join(parentPath, name)
    const { uid } = lstatSync(path, { throwIfNoEntry: false }) ?? owner
    if (uid !== owner.uid && name !== LOST_AND_FOUND) return { path, fix: formatChown(dataDir, owner) }
    if (++read >= MAX_ENTRIES_READ) break
  }
  return undefined
}
