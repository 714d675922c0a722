/**
 * @module Fills a MariaDB with the databases of a Postal 2.3 or 3.3: its tables, with the columns that those versions have,
 * and two organisations. Written from the schema, not from its source.
 */
import { generateKeyPairSync } from 'node:crypto'
import type { SQL } from 'bun'

/** Types by the mark after a name: `#` integer, `?` flag, `@` time, `*` text, `.` decimal; else varchar. */
const TYPES: Readonly<Record<string, string>> = {
  '#': 'int',
  '?': 'tinyint(1) DEFAULT 0',
  '@': 'datetime(6)',
  '*': 'text',
  '.': 'decimal(18,6)',
}

const TABLES = `
additional_route_endpoints: route_id# endpoint_type endpoint_id# created_at@ updated_at@
address_endpoints: server_id# uuid address last_used_at@ created_at@ updated_at@
credentials: server_id# key type name options* last_used_at@ created_at@ updated_at@ hold? uuid
domains: server_id# uuid name verification_token verification_method verified_at@ dkim_private_key* created_at@ updated_at@ dns_checked_at@ spf_status spf_error dkim_status dkim_error mx_status mx_error return_path_status return_path_error outgoing? incoming? owner_type owner_id# dkim_identifier_string use_for_any?
http_endpoints: server_id# uuid name url encoding format strip_replies? error* disabled_until@ last_used_at@ include_attachments? timeout#
ip_addresses: ip_pool_id# ipv4 ipv6 hostname priority#
ip_pool_rules: uuid owner_type owner_id# ip_pool_id# from_text* to_text*
ip_pools: name uuid default?
organization_users: organization_id# user_id# created_at@ admin? all_servers? user_type
organizations: uuid name permalink time_zone ip_pool_id# owner_id# deleted_at@ suspended_at@ suspension_reason
queued_messages: server_id# message_id# domain locked_by locked_at@ retry_after@ attempts# route_id# manual? batch_key
routes: uuid server_id# domain_id# endpoint_id# endpoint_type name spam_mode created_at@ updated_at@ token mode
servers: organization_id# uuid name mode ip_pool_id# permalink send_limit# deleted_at@ message_retention_days# raw_message_retention_days# raw_message_retention_size# allow_sender? token spam_threshold. spam_failure_threshold. postmaster_address suspended_at@ outbound_spam_threshold. domains_not_to_click_track* suspension_reason log_smtp_data?
smtp_endpoints: server_id# uuid name hostname ssl_mode port# error* disabled_until@ last_used_at@
track_domains: uuid server_id# domain_id# name dns_status ssl_enabled? track_clicks? track_loads? excluded_click_domains*
users: uuid first_name last_name email_address password_digest time_zone email_verified_at@ admin?
webhook_events: webhook_id# event created_at@
webhook_requests: server_id# webhook_id# url event uuid payload* attempts# retry_after@ error*
webhooks: server_id# uuid name url last_used_at@ all_events? enabled? sign? created_at@ updated_at@`

/** What 3.x has besides. */
const TABLES_3 = `
servers: privacy_mode?
users: oidc_uid oidc_issuer
webhook_requests: locked_by locked_at@
scheduled_tasks: name next_run_after@
worker_roles: role worker acquired_at@`

const MESSAGE_TABLES = `
migrations: version#
messages: token scope rcpt_to mail_from subject message_id timestamp. route_id# domain_id# credential_id# status held?
suppressions: type address reason timestamp. keep_until.
webhook_requests: uuid event attempt# timestamp. status_code# body* payload* will_retry# url hook#`

const SCHEMAS = {
  2: ['20161003195209', '20170418200606', '20200717083943', '20210727210551'],
  3: ['20170418200606', '20210727210551', '20240206173036', '20240213165450', '20240214132253', '20240311205229'],
}

const createKey = (modulusLength: number) => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength })
  return {
    pem: privateKey.export({ type: 'pkcs1', format: 'pem' }).toString(),
    /** As Postal has it in DNS. */
    record: `v=DKIM1; t=s; h=sha256; p=${publicKey.export({ type: 'spki', format: 'der' }).toString('base64')};`,
  }
}

export const KEYS = {
  smtp: 'SmtpSmtpSmtpSmtpSmtp0001',
  api: 'ApiApiApiApiApiApiApi002',
  news: 'NewsNewsNewsNewsNews0003',
}

export type Row = Readonly<Record<string, string | number | null>>

/** Creates the main database `name` and those of the servers, whose names begin with it too, and returns the keys. */
export async function fillPostal(sql: SQL, name: string, version: 2 | 3) {
  const dkim = createKey(1024)
  const newsDkim = createKey(2048)
  const insert = async (table: string, rows: readonly Row[]): Promise<void> => {
    for (const row of rows) {
      const columns = Object.keys(row).map((column) => `\`${column}\``)
      await sql.unsafe(
        `INSERT INTO \`${table.replace('.', '`.`')}\` (${columns}) VALUES (${columns.map(() => '?')})`,
        Object.values(row),
      )
    }
  }
  const create = async (database: string, ...tables: readonly string[]): Promise<void> => {
    await sql.unsafe(`DROP DATABASE IF EXISTS \`${database}\``)
    await sql.unsafe(`CREATE DATABASE \`${database}\` CHARACTER SET utf8mb4`)
    for (const [table = '', columns = ''] of tables
      .flatMap((text) => text.trim().split('\n'))
      .map((line) => line.split(': '))) {
      await sql.unsafe(`CREATE TABLE IF NOT EXISTS \`${database}\`.${table} (id int AUTO_INCREMENT PRIMARY KEY)`)
      const added = columns.split(' ').map((column) => {
        const mark = column.at(-1) ?? ''
        const type = TYPES[mark]
        return `ADD \`${type ? column.slice(0, -1) : column}\` ${type ?? 'varchar(255)'}`
      })
      await sql.unsafe(`ALTER TABLE \`${database}\`.${table} ${added}`)
    }
  }
  await create(name, TABLES, ...(version === 3 ? [TABLES_3] : []))
  await sql.unsafe(`CREATE TABLE \`${name}\`.schema_migrations (version varchar(255) PRIMARY KEY)`)
  const fill = (table: string, ...rows: readonly Row[]) => insert(`${name}.${table}`, rows)
  await fill('schema_migrations', ...SCHEMAS[version].map((each) => ({ version: each })))
  await fill('users', { email_address: 'ada@acme.test', admin: 1 }, { email_address: 'bob@beta.test' })
  await fill(
    'organizations',
    { name: 'Acme', permalink: 'acme', owner_id: 1 },
    { name: 'Beta', permalink: 'beta', owner_id: 2, suspended_at: '2024-01-01' },
    { name: 'Acme', permalink: 'acme-2', owner_id: 2 },
  )
  const servers = [
    { organization_id: 1, name: 'Main', permalink: 'main', mode: 'Live', send_limit: 100 },
    { organization_id: 1, name: 'News', permalink: 'news', mode: 'Live' },
    { organization_id: 1, name: 'Old', permalink: 'old', mode: 'Live', deleted_at: '2024-01-01' },
    { organization_id: 2, name: 'Main', permalink: 'main', mode: 'Live' },
    { organization_id: 3, name: 'Main', permalink: 'main', mode: 'Development' },
  ]
  await fill('servers', ...servers)
  const ofServer = { owner_type: 'Server', verified_at: '2024-01-01' }
  await fill(
    'domains',
    { ...ofServer, owner_id: 1, name: 'acme.test', dkim_private_key: dkim.pem, dkim_identifier_string: 'ABCDEF' },
    { ...ofServer, owner_id: 2, name: 'news.test', dkim_private_key: newsDkim.pem, dkim_identifier_string: 'NEWSXY' },
    // Another tenant's, never verified, and one whose key is too short.
    {
      ...ofServer,
      owner_id: 5,
      name: 'acme.test',
      verified_at: null,
      dkim_private_key: createKey(1024).pem,
      dkim_identifier_string: 'OTHERX',
    },
    {
      ...ofServer,
      owner_id: 2,
      name: 'short.test',
      dkim_private_key: createKey(512).pem,
      dkim_identifier_string: 'SHORTX',
    },
    {
      owner_type: 'Organization',
      owner_id: 1,
      name: 'shared.test',
      dkim_private_key: createKey(1024).pem,
      dkim_identifier_string: 'SHARED',
    },
  )
  await fill(
    'credentials',
    { server_id: 1, type: 'SMTP', name: 'Mailer', key: KEYS.smtp },
    { server_id: 1, type: 'API', name: 'Shop', key: KEYS.api },
    { server_id: 1, type: 'SMTP', name: 'Held', key: 'HeldHeldHeldHeldHeld0004', hold: 1 },
    { server_id: 1, type: 'SMTP-IP', name: 'Printer', key: '192.0.2.7' },
    { server_id: 2, type: 'SMTP', name: 'Letters', key: KEYS.news },
    { server_id: 2, type: 'API', name: 'Stolen', key: KEYS.api },
    { server_id: 5, type: 'SMTP', name: 'Trial', key: 'DevDevDevDevDevDevDev005' },
  )
  await fill(
    'http_endpoints',
    { server_id: 1, url: 'https://hooks.acme.test/in' },
    { server_id: 1, url: 'https://hooks.acme.test/2' },
  )
  await fill('smtp_endpoints', { server_id: 1, hostname: 'exchange.acme.test' })
  await fill('address_endpoints', { server_id: 1, address: 'boss@acme.test' })
  const toHttp = { server_id: 1, domain_id: 1, endpoint_type: 'HTTPEndpoint', endpoint_id: 1, mode: 'Endpoint' }
  await fill(
    'routes',
    { ...toHttp, name: 'support' },
    { ...toHttp, name: 'boss', endpoint_type: 'AddressEndpoint' },
    { ...toHttp, name: 'sales', endpoint_type: 'SMTPEndpoint' },
    { server_id: 1, domain_id: 1, name: '*', mode: 'Accept' },
    { server_id: 1, domain_id: 1, name: 'noreply', mode: 'Reject' },
    { ...toHttp, domain_id: null, name: '__returnpath__' },
  )
  await fill('additional_route_endpoints', { route_id: 1, endpoint_type: 'HTTPEndpoint', endpoint_id: 2 })
  await fill(
    'webhooks',
    { server_id: 1, url: 'https://hooks.acme.test/events', all_events: 1, enabled: 1 },
    { server_id: 1, url: 'https://hooks.acme.test/bounces', enabled: 1 },
    { server_id: 1, url: 'https://hooks.acme.test/held', enabled: 1 },
    { server_id: 2, url: 'https://hooks.acme.test/off', all_events: 1, enabled: 0 },
  )
  await fill('webhook_events', { webhook_id: 2, event: 'MessageBounced' }, { webhook_id: 3, event: 'MessageHeld' })
  await fill('ip_pools', { name: 'default' })
  await fill('track_domains', { server_id: 1, name: 'links.acme.test' })
  await fill('queued_messages', { server_id: 1, message_id: 1 })
  const suppressed = [
    { address: 'dead@receiver.test', reason: 'too many hard fails', keep_until: 4e9 },
    { address: 'angry@receiver.test', reason: 'by hand', keep_until: 4e9 },
    { address: 'expired@receiver.test', reason: 'too many soft fails', keep_until: 1e9 },
    { address: 'no address', reason: null, keep_until: 4e9 },
  ]
  for (const [index] of servers.entries()) {
    const database = `${name}-server-${index + 1}`
    await create(database, MESSAGE_TABLES)
    const rows = index < 2 ? suppressed : []
    await insert(
      `${database}.suppressions`,
      rows.map((row) => ({ type: 'recipient', timestamp: 1, ...row })),
    )
  }
  return { dkim, newsDkim }
}

/** DNS of Postal and its domains, as its documentation has it; all at this machine. */
export const createPostalZone = (records: { readonly dkim: string; readonly news: string }) => {
  const ofDomain = (domain: string, selector: string, record: string) => ({
    [domain]: {
      MX: [{ preference: 10, exchange: 'mx.postal.test' }],
      TXT: ['v=spf1 a mx include:spf.postal.test ~all'],
    },
    [`psrp.${domain}`]: { CNAME: 'rp.postal.test' },
    [`postal-${selector}._domainkey.${domain}`]: { TXT: [record] },
  })
  return {
    'postal.test': { A: ['127.0.0.1'] },
    'mx.postal.test': { A: ['127.0.0.1'] },
    'spf.postal.test': { TXT: ['v=spf1 ip4:127.0.0.1 ~all'] },
    'rp.postal.test': {
      A: ['127.0.0.1'],
      MX: [{ preference: 10, exchange: 'postal.test' }],
      TXT: ['v=spf1 a mx include:spf.postal.test ~all'],
    },
    ...ofDomain('acme.test', 'abcdef', records.dkim),
    ...ofDomain('news.test', 'newsxy', records.news),
  }
}
