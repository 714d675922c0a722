/** @module Checks that every body and attachment an email refers to exists. Never reads their content. */
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

/** References of month m begin at m times this number. */
const REFS_PER_MONTH = toRef(1, 0)

/** The blobs of one month: the ids that exist, and the problems of its database. */
interface MonthContents {
  readonly ids: ReadonlySet<number>
  readonly problems: readonly string[]
}

/**
 * Looks up every reference in the snapshot of `db`. Content is stored before the emails that refer to it. The months
 * are read after the snapshot was taken, so they hold all content of the emails in the snapshot.
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
        `email ${formatUuid(email.uuid)} refers to blob ${id} of ${formatMonth(month)}, which is missing`,
      )
      if (differences.length > MAX_DIFFERENCES) break
    }
    if (differences.length > MAX_DIFFERENCES) break
  }
  return [
    { rule: 'every body and attachment that an email refers to exists', differences },
    {
      rule: 'the content databases are intact',
      differences: [...months.values()].flatMap(({ problems: faults }) => faults),
    },
  ]
}

function listRefs({ htmlRef, textRef, attachments }: EmailRefs): number[] {
  const files = attachments === null ? [] : (JSON.parse(attachments) as { readonly ref?: number }[])
  // An attachment has no reference once retention has deleted its content.
  return [htmlRef, textRef, ...files.map(({ ref }) => ref)].filter((ref) => ref !== null && ref !== undefined)
}

function readMonth(folder: string, month: number): MonthContents {
  const path = join(folder, `${formatMonth(month)}.db`)
  if (!existsSync(path)) return { ids: new Set(), problems: [`${path} is missing`] }
  try {
    return readBlobs(folder, month, path)
  } catch (error) {
    // Blobs of a corrupt month count as missing, so every email that refers to them is listed.
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

/** Returns what `PRAGMA integrity_check` and `foreign_key_check` find; empty when the database is intact. */
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
    .map(({ table, rowid, parent }) => `row ${rowid ?? '?'} of ${table} refers to a missing row of ${parent}`)
  const remedy = broken.length > 0 ? [`it is corrupt; ${RESTORE_REMEDY}`] : []
  return [...remedy, ...broken, ...dangling].map((text) => `${name}: ${text}`)
}
