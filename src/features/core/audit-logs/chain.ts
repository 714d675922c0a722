/**
 * @module Hash chain of the audit log: what is hashed of each entry, and where the chain begins and ends. Each hash
 * covers the entry before, so that changing, removing or inserting an entry changes all later hashes. The hashes
 * contain personal fields only as a salted digest. Deleting these fields with their salt keeps the chain valid, and
 * they cannot be guessed from the digest. The hashes have no key, so the chain can be rewritten as a whole; the
 * operator detects a rewritten chain by recording the newest hash elsewhere.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { randomBytes, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
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
}))

/** The ends of the chain; undefined in a corrupt database. */
export const readChainEnds = (db: Database): ChainEnds | undefined => sql(db).ends.get() ?? undefined

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
