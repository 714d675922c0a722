import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { bytes, describeTable, flag, time, uuid } from '#platform/db/columns.ts'

export const domains = sqliteTable(
  'domains',
  {
    /** Never reused: emails refer to it after the row is deleted. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    /** A-label, lower case. */
    domain: text('domain').notNull(),
    dkimSelector: text('dkim_selector').notNull(),
    /** Base64 of the public key: the `p=` value. */
    dkimPublicKey: text('dkim_public_key').notNull(),
    /** PEM, sealed with context `dkim:{uuid}`. */
    dkimPrivateKey: bytes('dkim_private_key').notNull(),
    /** As `dkim_public_key`, of the second key; null: the next DNS check creates it. */
    ed25519PublicKey: text('ed25519_public_key'),
    /** PEM, sealed with context `dkim:{uuid}:ed25519`. */
    ed25519PrivateKey: bytes('ed25519_private_key'),
    /** Whether the record of the second key is published: only then does it sign. */
    ed25519Verified: flag('ed25519_verified').notNull().default(false),
    /** Label of the envelope sender's domain below `domain`. */
    sendingSubdomain: text('sending_subdomain').notNull(),
    spfVerified: flag('spf_verified').notNull().default(false),
    dkimVerified: flag('dkim_verified').notNull().default(false),
    dmarcVerified: flag('dmarc_verified').notNull().default(false),
    returnPathVerified: flag('return_path_verified').notNull().default(false),
    mxVerified: flag('mx_verified').notNull().default(false),
    inboundEnabled: flag('inbound_enabled').notNull().default(false),
    mxVerifiedAt: time('mx_verified_at'),
    /** Host name of tracked links, A-labels in lower case; null: the host name of the service. */
    trackingDomain: text('tracking_domain'),
    /** When the tracking host became verified; null: it is not verified. */
    trackingVerifiedAt: time('tracking_verified_at'),
    /** When the domain became verified; stays set during the 72 hours after records are lost; null: not verified. */
    verifiedAt: time('verified_at'),
    /**
     * When a check first found that a verified domain lacks a record that sending needs. If this is set and
     * `verified_at` is null, the domain no longer sends, and its mail is not captured either.
     */
    recordsLostAt: time('records_lost_at'),
    /** When owners were last mailed about lost records. */
    lossNoticeSentAt: time('loss_notice_sent_at'),
    /** What the last mail about records reported: `lost`, `ended` or `restored`. */
    lossNotice: text('loss_notice'),
    /** Null: never checked, or not since the operator marked the domain verified. */
    checkedAt: time('checked_at'),
    nextCheckAt: time('next_check_at').notNull(),
    /** JSON of `Failing` in verification-state.ts; null: nothing is failing. */
    failing: text('failing'),
    /** Set when deleted; the row stays, for its key, until the domain's open mail is final. */
    deletedAt: time('deleted_at'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** When its DKIM keys began to sign; null: with the registration. */
    dkimSince: time('dkim_since'),
    /** JSON of the tags of the DMARC policy that DNS last had for it; null: none that is valid, or it is not known. */
    dmarcPolicy: text('dmarc_policy'),
  },
  (t) => [
    uniqueIndex('domains_account_name').on(t.accountId, t.domain).where(sql`deleted_at is null`),
    uniqueIndex('domains_tracking').on(t.trackingDomain).where(sql`tracking_domain is not null and deleted_at is null`),
    // Includes deleted domains.
    index('domains_account').on(t.accountId),
    index('domains_name').on(t.domain),
    index('domains_due').on(t.nextCheckAt).where(sql`deleted_at is null`),
    index('domains_deleted').on(t.id).where(sql`deleted_at is not null`),
  ],
)
describeTable(domains, { account: 'account_id' })

/** DKIM keys of a domain that do not sign: the next ones, until DNS has their records, and former ones. */
export const dkimKeys = sqliteTable(
  'dkim_keys',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    domainId: integer('domain_id').notNull(),
    selector: text('selector').notNull(),
    /** These four as in `domains`, with the same seal contexts. Former keys have no private keys. */
    dkimPublicKey: text('dkim_public_key').notNull(),
    dkimPrivateKey: bytes('dkim_private_key'),
    ed25519PublicKey: text('ed25519_public_key'),
    ed25519PrivateKey: bytes('ed25519_private_key'),
    createdAt: time('created_at').notNull(),
    /** When it ceased to sign; null: the next one. */
    retiredAt: time('retired_at'),
  },
  (t) => [
    index('dkim_keys_domain').on(t.domainId),
    uniqueIndex('dkim_keys_next').on(t.domainId).where(sql`retired_at is null`),
  ],
)
describeTable(dkimKeys, { account: ['domain_id', 'domains'] })
