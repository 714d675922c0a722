/**
 * @module Verifies the audit log entry by entry and reports entries that were changed, removed or inserted. Read-only;
 * the connection must be in a read transaction, so that it sees one state of the log.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import * as chain from './chain.ts'

export interface BrokenEntry {
  /** Position in the log. */
  readonly id: number
  /** Public id; null when the entry is missing. */
  readonly uuid: string | null
  readonly createdAt: Millis | null
  /** The problem, as a sentence without its subject. */
  readonly reason: string
}

export interface AuditVerification {
  /** Number of entries. */
  readonly entries: number
  /** Number of these entries whose personal fields were erased; only their digest is verified. */
  readonly erased: number
  /** Position of the newest purged entry; 0 if none was. */
  readonly removedUpTo: number
  readonly headId: number
  /** Hash of the newest entry, in hex, for the operator to record elsewhere. */
  readonly headHash: string
  /** The number of invalid entries, and the first of them in order. */
  readonly brokenCount: number
  readonly broken: readonly BrokenEntry[]
  /** Whether `expected` is the hash of an entry; null when no hash was provided. */
  readonly hasExpected: boolean | null
}

interface Row extends chain.PermanentFields, chain.PersonalFields {
  readonly salt: Uint8Array | null
  readonly digest: Uint8Array
  readonly hash: Uint8Array
}

const sql = prepareStatements((db) => ({
  // Read as bytes, because a changed byte may decode to the same text.
  entries: db.prepare<Row, [number, number]>(
    `SELECT id, uuid, account_id AS accountId, CAST(actor_type AS BLOB) AS actorType, CAST(actor_id AS BLOB) AS actorId,
     CAST(action AS BLOB) AS action, CAST(resource_type AS BLOB) AS resourceType, CAST(resource_id AS BLOB) AS resourceId,
     CAST(ip_address AS BLOB) AS ipAddress, CAST(metadata AS BLOB) AS metadata, created_at AS createdAt, salt, digest, hash
     FROM audit_logs WHERE id > ? ORDER BY id LIMIT ?`,
  ),
}))

const BATCH_SIZE = 1000
const MAX_REPORTED = 20

/**
 * Verifies the whole log.
 * @param expected hash, in hex, that an entry of the log once had
 */
export function verifyAuditLog(db: Database, expected?: string): AuditVerification {
  const expectedHash = expected?.toLowerCase()
  const broken: BrokenEntry[] = []
  let brokenCount = 0
  const report = (entry: BrokenEntry): void => {
    brokenCount++
    if (broken.length < MAX_REPORTED) broken.push(entry)
  }
  const ends = chain.readChainEnds(db)
  if (!ends)
    report({ id: 0, uuid: null, createdAt: null, reason: 'the record of where the chain begins and ends is missing' })
  const anchorHash = ends?.anchorHash ?? chain.GENESIS_HASH
  let last: { id: number; hash: Uint8Array } = { id: ends?.anchorId ?? 0, hash: new Uint8Array(anchorHash) }
  let hasExpected = expectedHash === last.hash.toHex() && last.id > 0
  let entries = 0
  let erased = 0
  // Scans from the beginning, not from the anchor, because no entry may precede the anchor.
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const rows = sql(db).entries.all(after, BATCH_SIZE)
    for (const row of rows) {
      entries++
      if (row.salt === null) erased++
      const reason = findProblem(row, last, ends?.headId ?? 0)
      if (reason !== undefined)
        report({ id: row.id, uuid: formatUuid(new Uint8Array(row.uuid)), createdAt: row.createdAt, reason })
      if (Buffer.from(row.hash).toString('hex') === expectedHash) hasExpected = true
      last = { id: row.id, hash: new Uint8Array(row.hash) }
    }
    const end = rows.at(-1)
    if (!end || rows.length < BATCH_SIZE) break
    after = end.id
  }
  if (ends && ends.headId > last.id)
    report({
      id: last.id + 1,
      uuid: null,
      createdAt: null,
      reason: `is missing, and so is every entry up to ${ends.headId}`,
    })
  else if (ends && ends.headId === last.id && !isSameBytes(ends.headHash, last.hash) && brokenCount === 0)
    report({ id: last.id, uuid: null, createdAt: null, reason: 'is not the entry with which the chain ends' })
  return {
    entries,
    erased,
    removedUpTo: ends?.anchorId ?? 0,
    headId: last.id,
    headHash: last.hash.toHex(),
    brokenCount,
    broken,
    hasExpected: expectedHash === undefined ? null : hasExpected,
  }
}

/** The problem with an entry; undefined when its content and position are as written. */
function findProblem(row: Row, last: { id: number; hash: Uint8Array }, headId: number): string | undefined {
  const { salt, digest, hash } = row
  if (row.id <= last.id) return `precedes the beginning of the chain, entry ${last.id}`
  if (row.id > headId) return 'was inserted after the end of the chain'
  const isErased =
    Buffer.from(row.actorId).toString() === chain.ERASED && !row.ipAddress && !row.resourceId && !row.metadata
  const isDigestRight = salt ? isSameBytes(digest, chain.computeDigest(salt, row)) : isErased
  const isHashRight = isSameBytes(hash, chain.computeHash(last.hash, row, digest))
  if (isDigestRight && isHashRight) return undefined
  if (!isHashRight && isDigestRight && row.id !== last.id + 1)
    return `does not follow the previous entry, ${last.id}: entries between them are missing, or its number was changed`
  if (!isDigestRight && isHashRight) return 'has a changed actor, address, resource, metadata, salt or digest'
  return 'was changed, or replaced another entry'
}

const isSameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0
