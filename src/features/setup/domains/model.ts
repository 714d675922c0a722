/** @module Wire form of domains, and conversion of stored domains to it. */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { isoTime, isoTimeOrNull, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { readModulusBits } from '#protocols/dkim/keys.ts'
import { type ByRecord, buildDkimRecord, type DnsRecord as DnsRecordWire } from './dns-records.ts'
import { type Domain, listDnsRecords } from './domains.ts'
import { getKeepUntil } from './rotate-dkim.ts'
import { findCoveringDomain } from './sending.ts'
import { getSendsUntil, listLostRecords } from './verification-state.ts'

export const NewDomain = S.StrictObject({
  domain: Type.String({
    minLength: 1,
    maxLength: 1024,
    description:
      'The domain of your From addresses, such as example.com; no public suffix, IP address or single label.',
  }),
  dkim_private_key: Type.Optional(
    Type.String({
      maxLength: 16_384,
      description:
        'A private RSA key of 1,024 to 4,096 bits in PEM, which signs instead of a new one, so that its DNS record stays. With `dkim_selector`.',
    }),
  ),
  dkim_selector: Type.Optional(
    Type.String({
      maxLength: 255,
      description: 'The selector at which DNS has that key: the label before `._domainkey`.',
    }),
  ),
  return_path: Type.Optional(
    Type.String({
      maxLength: 1024,
      description:
        'Host name of the envelope sender, one label below the domain, such as bounces.example.com; default: send.example.com. It may be a CNAME.',
    }),
  ),
})

export const DomainChange = S.StrictObject({
  inbound_enabled: Type.Boolean({
    description: 'Whether mail to the domain is accepted, even before its MX record is verified.',
  }),
})

export const NewTrackingDomain = S.StrictObject({
  tracking_domain: Type.String({
    minLength: 1,
    maxLength: 1024,
    description: 'Host name for tracked links, such as links.example.com: any subdomain whose DNS you control.',
  }),
})

const RecordType = S.StringEnum(['TXT', 'MX', 'CNAME'], { description: 'Type of the record.' })

const FURTHER_VALUES = S.extra(
  Type.Optional(
    Type.Array(Type.String(), {
      description:
        'Of an MX, in a cluster whose nodes have names of their own: the values of further records at this name, with the same priority.',
    }),
  ),
)

const DnsRecord = (description: string) =>
  Type.Object(
    {
      type: RecordType,
      host: S.Text('Full name of the record, without a trailing dot.'),
      value: S.Text('Value to publish: of a TXT record without quotes, of an MX record without its priority.'),
      priority: Type.Optional(S.Count('Priority of an MX record.')),
      further_values: FURTHER_VALUES,
      verified: Type.Boolean({ description: 'Whether the record is verified.' }),
    },
    { title: 'DnsRecord', description },
  )

const DNS_RECORDS = S.Part('The DNS records to publish.', {
  spf: DnsRecord('SPF record of the sending subdomain: authorises our addresses to send.'),
  dkim: DnsRecord('DKIM key with which receivers verify signatures.'),
  dkim_ed25519: Type.Optional(
    DnsRecord(
      'Second DKIM key, Ed25519 (RFC 8463). Optional: mail is also signed with it while this record is published.',
    ),
  ),
  dkim_next: S.extra(
    Type.Optional(DnsRecord('DKIM key of a rotation: signs once this record is published. Keep `dkim` meanwhile.')),
  ),
  dkim_ed25519_next: S.extra(Type.Optional(DnsRecord('Ed25519 key of a rotation, as `dkim_next`.'))),
  dmarc: DnsRecord('DMARC policy for mail that fails authentication; any valid policy passes.'),
  return_path: DnsRecord('MX record of the sending subdomain: routes bounces to us.'),
  mx: DnsRecord('MX record of the domain: needed only to receive mail through this service.'),
  tracking: Type.Optional(
    DnsRecord('CNAME of the tracking host: points tracked links to us. Present while a tracking domain is set.'),
  ),
  tls_reports: S.extra(
    Type.Optional(
      DnsRecord(
        'Asks for reports about TLS sessions with our MX. Optional; present while inbound mail is enabled. `GET /v1/domains/{id}/dns` checks it; `verified` is false here.',
      ),
    ),
  ),
})

const FIELDS = {
  id: S.Uuid({ description: 'Id of the domain.' }),
  account_id: S.Uuid({ description: 'Account that registered it.' }),
  dkim_selector: S.Text('DKIM selector: the label before `._domainkey`.'),
  dkim_public_key: S.OptionalNullable(Type.String(), { description: 'The `p=` value of the DKIM record.' }),
  dkim_key_bits: S.extra(
    Type.Integer({
      description: 'Size of its RSA key. Less than 2,048 is weak, and Gmail asks for more: rotate the key.',
    }),
  ),
  sending_subdomain: S.Text('Label of the envelope sender below the domain, such as `send`.'),
  status: S.extra(
    Type.Union([Type.Literal('pending'), Type.Literal('verified')], {
      description:
        '`verified` once SPF, DKIM and return path are verified, and for 72 hours after one of them is lost. Mail of a domain that was never verified is captured, unless `covered_by` names one that signs it; after 72 hours without a record, mail is rejected.',
    }),
  ),
  spf_verified: Type.Boolean({ description: 'SPF of the sending subdomain passes for our addresses.' }),
  dkim_verified: Type.Boolean({ description: 'Our DKIM key is published.' }),
  dkim_ed25519_verified: S.extra(
    Type.Boolean({
      description: 'Our Ed25519 key is published, so mail has a second signature. Not needed to send.',
    }),
  ),
  dmarc_verified: Type.Boolean({ description: 'The domain, or its organisational domain, has a valid DMARC policy.' }),
  return_path_verified: Type.Boolean({ description: 'The MX of the sending subdomain points to us.' }),
  mx_verified: Type.Boolean({ description: 'The MX of the domain itself points to us.' }),
  mx_verified_at: S.OptionalNullable(S.Timestamp(), { description: 'When the MX became verified.' }),
  inbound_enabled: Type.Boolean({ description: 'Whether mail to the domain is accepted.' }),
  tracking_domain: S.OptionalNullable(Type.String(), {
    description: 'Host name of tracked links; null: the host name of the service.',
  }),
  tracking_domain_verified: Type.Boolean({ description: 'The CNAME of the tracking host points to us.' }),
  tracking_domain_verified_at: S.OptionalNullable(S.Timestamp(), {
    description: 'When the tracking host became verified.',
  }),
  verified_at: S.OptionalNullable(S.Timestamp(), { description: 'When the domain became verified.' }),
  records_lost_at: S.extra(
    S.OptionalNullable(S.Timestamp(), {
      description:
        'When a check first found that a verified domain lacks a record that sending needs; null: no record is missing.',
    }),
  ),
  lost_records: S.extra(
    Type.Optional(
      Type.Array(Type.String(), {
        description: 'Which of `spf`, `dkim` and `return_path` were lost since the domain was verified.',
      }),
    ),
  ),
  sends_until: S.extra(
    S.OptionalNullable(S.Timestamp(), {
      description:
        'When a domain that lacks records stops sending, or stopped: 72 hours after `records_lost_at`. From then on, sends fail with 422 `domain_not_verified`.',
    }),
  ),
  covered_by: S.extra(
    Type.Optional(
      S.Text(
        'The verified domain above this one, which is not verified: its mail is sent, signed by that domain. Missing if there is none.',
      ),
    ),
  ),
  dns_records: DNS_RECORDS,
  former_dkim_selectors: S.extra(
    Type.Optional(
      Type.Array(
        Type.Object({
          selector: S.Text('The label before `._domainkey`.'),
          keep_until: S.Timestamp({ description: 'From then on its records may be removed from DNS.' }),
        }),
        {
          description:
            'Selectors that signed before a rotation in the last 37 days, newest first; present when there are any.',
        },
      ),
    ),
  ),
  checked_at: S.extra(
    S.OptionalNullable(S.Timestamp(), { description: 'When its DNS was last checked; null: it never was.' }),
  ),
  created_at: S.Timestamp({ description: 'When the domain was registered.' }),
  updated_at: S.Timestamp({ description: 'When the domain last changed.' }),
}

/** The RSA records of former keys that must still be in DNS. */
export const listFormerDkimRecords = (domain: Domain, now: Millis): DnsRecordWire[] =>
  domain.formerDkim
    .filter((former) => getKeepUntil(former) > now)
    .map(({ selector, dkimPublicKey: publicKey }) =>
      buildDkimRecord(domain, { type: 'rsa', selector, publicKey }, true),
    )

export const DomainWire = Type.Object({
  ...FIELDS,
  domain: S.Text('Name of the domain, in A-labels.'),
})
export type DomainWire = Static<typeof DomainWire>

export const CreatedDomain = Type.Object({
  data: DomainWire,
  warnings: Type.Optional(
    Type.Array(Type.String(), { description: 'Present when the name already begins with the sending subdomain.' }),
  ),
})

const Check = (description: string) =>
  Type.Object(
    {
      verified: Type.Boolean({ description: 'Whether the record is verified now.' }),
      detail: S.Text('What was found, what was expected, what to publish.'),
    },
    { title: 'DnsCheck', description },
  )

const CHECKS = {
  spf: Check('The SPF record.'),
  dkim: Check('The DKIM key.'),
  dkim_next: S.extra(Type.Optional(Check('The DKIM key of a rotation, which signs once its record is published.'))),
  dkim_ed25519: S.extra(Type.Optional(Check('The Ed25519 DKIM key; without it the domain still verifies.'))),
  dkim_ed25519_next: S.extra(Type.Optional(Check('The Ed25519 key of a rotation.'))),
  dmarc: Check('The DMARC policy; without one the domain still verifies.'),
  return_path: Check('The MX of the sending subdomain.'),
  mx: Check('The MX of the domain itself; without it the domain still verifies.'),
}

const CNAME_TARGET = S.Text('Name to which the CNAME of the tracking domain must point.')

export const TrackingDomainSet = Type.Object({ data: DomainWire, cname_target: CNAME_TARGET })

export const TrackingVerification = Type.Object({
  data: DomainWire,
  tracking_check: Check(
    'Result of checking DNS now. When a look-up fails, the verification stays unchanged and `detail` says so.',
  ),
})

/** The domain's fields, except that `domain` is the domain object itself. */
export const VerificationWire = Type.Object({
  ...FIELDS,
  domain: Type.Object(DomainWire.properties, { description: 'The domain as an object.' }),
  checks: Type.Object(CHECKS, {
    description:
      'Results of checking DNS now. When a look-up fails, the flag of its record stays unchanged and `detail` says so.',
  }),
  fully_verified: Type.Boolean({
    description:
      'Whether SPF, DKIM and return path are all verified. A verified domain that lacks one still sends until `sends_until`.',
  }),
})

const PublishedRecord = (description: string) =>
  Type.Object(
    {
      type: RecordType,
      name: S.Text('Full name of the record, without a trailing dot.'),
      zone: S.Text('The DNS zone of that name: the closest one above it that has name servers.'),
      host: S.Text(
        'The name as the DNS provider of that zone wants it typed: relative to the zone for nearly all; empty: leave the field empty.',
      ),
      expected: S.Text('What to publish: a TXT without quotes, an MX without its priority.'),
      priority: Type.Optional(S.Count('Priority of an MX.')),
      further_values: FURTHER_VALUES,
      found: Type.Array(Type.String(), {
        description:
          'The values at the name now, at most 10 of at most 1,024 characters: an MX with its priority; addresses when a tracking host has no CNAME.',
      }),
      status: S.StringEnum(['verified', 'missing', 'wrong', 'unanswered'], {
        description: '`unanswered`: DNS did not respond, so the record may or may not exist.',
      }),
      detail: S.Text('What was found, what was expected, what to publish.'),
      keep: Type.Optional(
        S.Text(
          'Of `spf` and `dmarc` with an existing record: the one that stays if it is verified; else the SPF record to publish in its place, with its terms and ours.',
        ),
      ),
      inherited_from: Type.Optional(
        S.Text(
          'Of `dmarc`: the domain above this one, whose policy applies because this one has none. Then no record is needed here.',
        ),
      ),
    },
    { title: 'PublishedDnsRecord', description },
  )

export const PublishedDnsWire = Type.Object({
  domain: S.Text('The name, in A-labels.'),
  zone: S.Text('The DNS zone of the domain.'),
  nameservers: Type.Array(Type.String(), { description: 'Name servers of the zone; empty when none were found.' }),
  provider: S.NullablePart('The DNS provider of the zone, recognised by its name servers; null: unknown.', {
    name: S.Text('Name of the DNS provider.'),
    nameservers: Type.Array(Type.String(), { description: 'Its name servers for the zone.' }),
    edit_url: S.TextOrNull('Where its records are edited; null: unknown.'),
  }),
  domain_spf: S.TextOrNull(
    'The SPF record of the domain itself, which stays unchanged: that of this service is at the sending subdomain. null: none.',
  ),
  records: S.Part('The records to publish.', {
    spf: PublishedRecord('Authorises our addresses to send; at the sending subdomain.'),
    dkim: PublishedRecord('The key with which receivers verify signatures.'),
    dkim_ed25519: Type.Optional(
      PublishedRecord('The key of the second signature; optional. Mail is signed with it while this is published.'),
    ),
    dkim_next: Type.Optional(PublishedRecord('The next DKIM key, which signs once this is published.')),
    dkim_ed25519_next: Type.Optional(PublishedRecord('The next Ed25519 key, as `dkim_next`.')),
    dmarc: PublishedRecord('The policy for mail that fails; any valid policy passes.'),
    return_path: PublishedRecord('Routes bounces to us; at the sending subdomain.'),
    mx: Type.Optional(PublishedRecord('Brings mail to the domain to us; present while inbound mail is enabled.')),
    tracking: Type.Optional(PublishedRecord('Points tracked links to us; present while a tracking domain is set.')),
    tls_reports: Type.Optional(
      PublishedRecord('Asks for TLS reports; optional, present while inbound mail is enabled.'),
    ),
  }),
  checked_at: S.Timestamp({ description: 'When DNS was asked.' }),
  warnings: Type.Array(Type.String(), {
    description:
      'Why the records cannot work whatever DNS has, such as a host name of the service that DNS cannot have.',
  }),
})
export type PublishedDnsWire = Static<typeof PublishedDnsWire>

export function toDomainWire(app: Pick<App, 'config' | 'cluster' | 'db'>, domain: Domain): DomainWire {
  const { verified } = domain
  const coveredBy = findCoveringDomain(app.db, domain)
  return toWire(DomainWire, domain, {
    account_id: formatUuid(domain.accountUuid),
    status: domain.verifiedAt === null ? 'pending' : 'verified',
    dkim_key_bits: readModulusBits(domain.dkimPublicKey),
    spf_verified: verified.spf,
    dkim_verified: verified.dkim,
    dkim_ed25519_verified: domain.isEd25519Verified,
    dmarc_verified: verified.dmarc,
    return_path_verified: verified.return_path,
    mx_verified: verified.mx,
    mx_verified_at: isoTimeOrNull(domain.mxVerifiedAt),
    tracking_domain: domain.trackingDomain,
    tracking_domain_verified: domain.trackingVerifiedAt !== null,
    tracking_domain_verified_at: isoTimeOrNull(domain.trackingVerifiedAt),
    verified_at: isoTimeOrNull(domain.verifiedAt),
    records_lost_at: isoTimeOrNull(domain.recordsLostAt),
    lost_records: listLostRecords(domain),
    sends_until: isoTimeOrNull(getSendsUntil(domain)),
    ...(coveredBy !== undefined && { covered_by: coveredBy }),
    dns_records: listDnsRecords(app, domain),
    ...(domain.formerDkim.length > 0 && {
      former_dkim_selectors: domain.formerDkim.map((former) => ({
        selector: former.selector,
        keep_until: isoTime(getKeepUntil(former)),
      })),
    }),
    checked_at: isoTimeOrNull(domain.checkedAt),
  })
}

/** A check as the API shows it: `verified` is the domain's flag after the check, `detail` what this check found. */
export interface CheckView {
  readonly verified: boolean
  readonly detail: string
}

export interface DomainVerification {
  readonly domain: Domain
  readonly checks: ByRecord<CheckView>
  readonly fullyVerified: boolean
}

export function toVerificationWire(
  app: Pick<App, 'config' | 'cluster' | 'db'>,
  { domain, checks, fullyVerified }: DomainVerification,
): Static<typeof VerificationWire> {
  const wire = toDomainWire(app, domain)
  return { ...wire, domain: wire, checks, fully_verified: fullyVerified }
}
