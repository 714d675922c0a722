/**
 * @module Hash chain of the audit log: what is hashed of each entry, and where the chain begins and ends. Each hash
 * covers the entry before, so that changing, removing or inserting an entry changes all later hashes. The hashes
 * contain personal fields only as a salted digest. Deleting these fields with their salt keeps the chain valid, and
 * they cannot be guessed from the digest. The hashes have no key, so the chain can be rewritten as a whole; the
 * operator detects a rewritten chain by recording the newest hash elsewhere. `verifyAuditLog` reports entries that were changed, removed or inserted.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid, randomBytes, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import type { auditChain } from './tables.ts'

/** The previous hash of the first entry. */
export const GENESIS_HASH: Uint8Array = new Uint8Array(32)

/** The `actor_id` of an entry whose personal fields were erased; its other personal fields are null. */
export const ERASED = 'erased'

/** Stored text, or its raw bytes: a tampered byte need not be valid UTF-8. */
type StoredText = string | Uint8Array

/** Fields that can identify a person. */
export interface PersonalFields {
  readonly actorId: StoredText
  readonly ipAddress: StoredText | null
  readonly resourceId: StoredText | null
  readonly metadata: StoredText | null
}

/** The fields that are never erased. */
export interface PermanentFields {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number | null
  readonly actorType: StoredText
  readonly action: StoredText
  readonly resourceType: StoredText | null
  readonly createdAt: Millis
}

const SALT_BYTES = 16

export const createSalt = (): Uint8Array => randomBytes(SALT_BYTES)

export const computeDigest = (
  salt: Uint8Array,
  { actorId, ipAddress, resourceId, metadata }: PersonalFields,
): Uint8Array => hashFields(salt, [actorId, ipAddress, resourceId, metadata])

/** @param before hash of the previous entry, or GENESIS_HASH */
export const computeHash = (before: Uint8Array, entry: PermanentFields, digest: Uint8Array): Uint8Array =>
  hashFields(before, [
    entry.id,
    entry.uuid,
    entry.accountId,
    entry.actorType,
    entry.action,
    entry.resourceType,
    entry.createdAt,
    digest,
  ])

const NULL = 0
const NUMBER = 1
const TEXT = 2

/**
 * SHA-256 over `prefix` and the fields, each preceded by its type and length, so that two different lists never produce
 * the same bytes.
 */
function hashFields(prefix: Uint8Array, fields: readonly (StoredText | number | null)[]): Uint8Array {
  const hasher = new Bun.CryptoHasher('sha256')
  hasher.update(prefix)
  for (const field of fields) {
    const bytes = field === null ? undefined : Buffer.from(typeof field === 'number' ? String(field) : field)
    const head = Buffer.alloc(5)
    head[0] = field === null ? NULL : typeof field === 'number' ? NUMBER : TEXT
    head.writeUInt32BE(bytes?.length ?? 0, 1)
    hasher.update(head)
    if (bytes) hasher.update(bytes)
  }
  return new Uint8Array(hasher.digest())
}

/** Where the chain begins and ends. */
export type ChainEnds = Readonly<Omit<typeof auditChain.$inferSelect, 'id'>>

const sql = prepareStatements((db) => ({
  ends: db.prepare<ChainEnds, []>(
    `SELECT anchor_id AS anchorId, anchor_hash AS anchorHash, head_id AS headId, head_hash AS headHash
     FROM audit_chain WHERE id = 1`,
  ),
  last: db.prepare<{ id: number; createdAt: Millis }, []>(
    'SELECT id, created_at AS createdAt FROM audit_logs ORDER BY id DESC LIMIT 1',
  ),
  setHead: db.prepare<unknown, [number, Uint8Array, Uint8Array]>(
    `INSERT INTO audit_chain (id, anchor_id, anchor_hash, head_id, head_hash) VALUES (1, 0, ?3, ?1, ?2)
     ON CONFLICT DO UPDATE SET head_id = excluded.head_id, head_hash = excluded.head_hash`,
  ),
  setAnchor: db.prepare<unknown, [number, Uint8Array]>(
    'UPDATE audit_chain SET anchor_id = ?, anchor_hash = ? WHERE id = 1',
  ),
  // Read as bytes, because a changed byte may decode to the same text.
  entries: db.prepare<Row, [number, number]>(
    `SELECT id, uuid, account_id AS accountId, CAST(actor_type AS BLOB) AS actorType, CAST(actor_id AS BLOB) AS actorId,
     CAST(action AS BLOB) AS action, CAST(resource_type AS BLOB) AS resourceType, CAST(resource_id AS BLOB) AS resourceId,
     CAST(ip_address AS BLOB) AS ipAddress, CAST(metadata AS BLOB) AS metadata, created_at AS createdAt, salt, digest, hash
     FROM audit_logs WHERE id > ? ORDER BY id LIMIT ?`,
  ),
}))

/**
 * Id, previous hash and earliest time for the next entry. Ids are never reused, even after a purge. Times never
 * decrease along the ids, even if the clock was set back while the service was down.
 */
export function findNextInChain(db: Database): { id: number; before: Uint8Array; notBefore: Millis } {
  const { ends, last } = sql(db)
  const chain = ends.get()
  const newest = last.get()
  // The new entry continues from the head, not from an entry that tampering inserted after the head. The new entry
  // skips the ids of such entries, because reusing one of them would make every change fail.
  const id = Math.max(chain?.headId ?? 0, newest?.id ?? 0) + 1
  return { id, before: chain?.headHash ?? GENESIS_HASH, notBefore: newest?.createdAt ?? 0 }
}

export const setChainHead = (db: Database, id: number, hash: Uint8Array): void =>
  void sql(db).setHead.run(id, hash, GENESIS_HASH)

export const setChainAnchor = (db: Database, id: number, hash: Uint8Array): void => void sql(db).setAnchor.run(id, hash)

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

interface Row extends PermanentFields, PersonalFields {
  readonly salt: Uint8Array | null
  readonly digest: Uint8Array
  readonly hash: Uint8Array
}

const BATCH_SIZE = 1000
const MAX_REPORTED = 20

/**
 * Verifies the whole log. The connection must be in a read transaction, so that it sees one state of the log.
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
  // Missing in a corrupt database.
  const ends = sql(db).ends.get()
  if (!ends)
    report({ id: 0, uuid: null, createdAt: null, reason: 'the record of where the chain begins and ends is missing' })
  const anchorHash = ends?.anchorHash ?? GENESIS_HASH
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
  const isErased = Buffer.from(row.actorId).toString() === ERASED && !row.ipAddress && !row.resourceId && !row.metadata
  const isDigestRight = salt ? isSameBytes(digest, computeDigest(salt, row)) : isErased
  const isHashRight = isSameBytes(hash, computeHash(last.hash, row, digest))
  if (isDigestRight && isHashRight) return undefined
  if (!isHashRight && isDigestRight && row.id !== last.id + 1)
    return `does not follow the previous entry, ${last.id}: entries between them are missing, or its number was changed`
  if (!isDigestRight && isHashRight) return 'has a changed actor, address, resource, metadata, salt or digest'
  return 'was changed, or replaced another entry'
}

const isSameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0
