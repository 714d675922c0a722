/**
 * @module Whether every body and attachment that an email refers to is there. Reads which parts exist, never their
 * content.
 */
import type { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { blobPath, ENCODING, formatMonth, toRef } from '#platform/content/read.ts'
import { MAX_DIFFERENCES, type Violation } from '#platform/db/consistency.ts'
import { isDatabaseCorrupt } from '#platform/db/corruption.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { describeCorruption, RESTORE_REMEDY } from '../create.ts'

interface EmailRefs {
  uuid: Uint8Array
  htmlRef: number | null
  textRef: number | null
  attachments: string | null
}

/** How references are counted: those of month m begin at m times this. */
const REFS_PER_MONTH = toRef(1, 0)

/** The parts of one month: which rows there are, and whether the database is sound. */
interface MonthContents {
  readonly ids: ReadonlySet<number>
  readonly problems: readonly string[]
}

/**
 * Looks up every reference of the snapshot in `db`. Content is stored before what refers to it, so months are read
 * after the snapshot was taken.
 * @param folder of the content store
 */
export function checkContent(db: Database, folder: string): Violation[] {
  const months = new Map<number, MonthContents>()
  const differences: string[] = []
  const emails = db.query<EmailRefs, []>(
    `SELECT uuid, html_ref AS htmlRef, text_ref AS textRef, attachments FROM emails
     WHERE html_ref IS NOT NULL OR text_ref IS NOT NULL OR attachments IS NOT NULL`,
  )
  for (const email of emails.iterate()) {
    for (const ref of listRefs(email)) {
      const month = Math.floor(ref / REFS_PER_MONTH)
      const id = ref % REFS_PER_MONTH
      const blobs = months.get(month) ?? readMonth(folder, month)
      months.set(month, blobs)
      if (blobs.ids.has(id)) continue
      differences.push(
        `email ${formatUuid(email.uuid)} refers to part ${id} of ${formatMonth(month)}, which is not there`,
      )
      if (differences.length > MAX_DIFFERENCES) break
    }
    if (differences.length > MAX_DIFFERENCES) break
  }
  return [
    { rule: 'every body and attachment that an email refers to is there', differences },
    {
      rule: 'the content databases are sound',
      differences: [...months.values()].flatMap(({ problems: faults }) => faults),
    },
  ]
}

function listRefs({ htmlRef, textRef, attachments }: EmailRefs): number[] {
  const files = attachments === null ? [] : (JSON.parse(attachments) as { readonly ref?: number }[])
  // One whose content went by its age has no reference.
  return [htmlRef, textRef, ...files.map(({ ref }) => ref)].filter((ref) => ref !== null && ref !== undefined)
}

function readMonth(folder: string, month: number): MonthContents {
  const path = join(folder, `${formatMonth(month)}.db`)
  if (!existsSync(path)) return { ids: new Set(), problems: [`${path} is not there`] }
  try {
    return readBlobs(folder, month, path)
  } catch (error) {
    // What could be read of it is not worth more: its emails are named.
    if (!isDatabaseCorrupt(error)) throw error
    return { ids: new Set(), problems: [describeCorruption(path, RESTORE_REMEDY, error)] }
  }
}

function readBlobs(folder: string, month: number, path: string): MonthContents {
  const db = openReadOnly(path)
  try {
    const blobs = db.query<{ id: number; hash: Uint8Array | null }, [number]>(
      `SELECT id, CASE WHEN encoding = ? THEN hash END AS hash FROM parts WHERE encoding <> ${ENCODING.deleted}`,
    )
    const ids = new Set<number>()
    for (const { id, hash } of blobs.iterate(ENCODING.file))
      if (hash === null || existsSync(blobPath(folder, month, hash))) ids.add(id)
    return { ids, problems: findCorruption(db, formatMonth(month)) }
  } finally {
    db.close()
  }
}

/** What `PRAGMA integrity_check` and `foreign_key_check` find; empty when the database is sound. */
export function findCorruption(db: Database, name: string): string[] {
  const broken = db
    .query<{ integrity_check: string }, []>(`PRAGMA integrity_check(${MAX_DIFFERENCES})`)
    .all()
    .map((row) => row.integrity_check)
    .filter((text) => text !== 'ok')
  const dangling = db
    .query<{ table: string; rowid: number | null; parent: string }, []>('PRAGMA foreign_key_check')
    .all()
    .slice(0, MAX_DIFFERENCES)
    .map(({ table, rowid, parent }) => `row ${rowid ?? '?'} of ${table} refers to a row of ${parent} that is not there`)
  const remedy = broken.length > 0 ? [`it is damaged; ${RESTORE_REMEDY}`] : []
  return [...remedy, ...broken, ...dangling].map((text) => `${name}: ${text}`)
}
