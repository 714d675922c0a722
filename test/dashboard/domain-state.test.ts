import { describe, expect, test } from 'bun:test'
import type { Domain, DomainDns } from '#client/api.ts'
import {
  type DnsRecordView,
  describeDomain,
  describeKept,
  hasImproved,
  isDone,
  isNew,
  isUnproven,
  listFormerKeys,
  listMarks,
  listRecords,
  toFinding,
  toPublish,
  toTypedDomain,
} from '#dashboard/screens/domains/state.ts'

const VALUE = 'v=spf1 ip4:192.0.2.25 -all'

/** A domain with these fields; those left out are not read. */
const domainWith = (fields: Partial<Domain>): Domain =>
  ({
    status: 'pending',
    lost_records: [],
    sends_until: null,
    records_lost_at: null,
    inbound_enabled: false,
    tracking_domain: null,
    tracking_domain_verified: false,
    spf_verified: false,
    dkim_verified: false,
    dmarc_verified: false,
    return_path_verified: false,
    mx_verified: false,
    ...fields,
  }) as Domain

test('former DKIM keys are listed with both names, and whether their records may go', () => {
  const former = [
    { selector: 'ts2', keep_until: '2026-01-08T00:00:00.000Z' },
    { selector: 'ts1', keep_until: '2026-01-02T00:00:00.000Z' },
  ]
  const domain = domainWith({ domain: 'example.com', former_dkim_selectors: former })
  expect(listFormerKeys(domain, Date.UTC(2026, 0, 5)).map((key) => [...key.names, key.isRemovable])).toEqual([
    ['ts2._domainkey.example.com', 'ts2e._domainkey.example.com', false],
    ['ts1._domainkey.example.com', 'ts1e._domainkey.example.com', true],
  ])
  expect(listFormerKeys(domainWith({}), 0)).toEqual([])
})

const recordWith = (fields: Partial<DnsRecordView>): DnsRecordView => ({
  key: 'spf',
  type: 'TXT',
  name: 'send.example.com',
  zone: 'example.com',
  host: 'send',
  expected: VALUE,
  found: [],
  status: 'missing',
  detail: `There is no SPF record at send.example.com. Publish a TXT record at send.example.com with the value ${VALUE}`,
  ...fields,
})

const dnsWith = (records: Partial<DomainDns['records']>): DomainDns => ({ records }) as unknown as DomainDns

describe('the state of a domain in words', () => {
  test('is what its verification means', () => {
    const until = '2026-01-03T00:00:00.000Z'
    const lost = { lost_records: ['dkim', 'return_path'], sends_until: until, records_lost_at: until }
    expect(describeDomain(domainWith({}))).toMatchObject({ tone: 'waiting', word: 'Waiting for DNS', until: null })
    // The domain above signs its mail, also when it was verified itself and has lost a record.
    for (const covered of [
      domainWith({ covered_by: 'example.com' }),
      domainWith({ covered_by: 'example.com', ...lost }),
    ])
      expect(describeDomain(covered)).toMatchObject({ tone: 'good', word: 'Sends', detail: 'Signed by example.com' })
    expect(describeDomain(domainWith({ status: 'verified' }))).toMatchObject({ tone: 'good', word: 'Verified' })
    expect(describeDomain(domainWith({ status: 'verified', ...lost }))).toEqual({
      tone: 'warning',
      word: 'Lost DKIM, Return path',
      detail: 'sends until',
      until,
    })
    expect(describeDomain(domainWith(lost))).toEqual({
      tone: 'bad',
      word: 'Does not send',
      detail: 'lost DKIM, Return path; stopped',
      until,
    })
    expect([isNew(domainWith({})), isNew(domainWith(lost)), isNew(domainWith({ status: 'verified' }))]).toEqual([
      true,
      false,
      false,
    ])
  })

  test('counts the records that sending needs until it sends, inbound MX and tracking host if they are used', () => {
    const keys = (domain: Domain) => listMarks(domain).map(({ key }) => key)
    expect(keys(domainWith({}))).toEqual(['spf', 'return_path', 'dkim'])
    expect(keys(domainWith({ covered_by: 'example.com' }))).toEqual([])
    expect(keys(domainWith({ status: 'verified' }))).toEqual([])
    const both = domainWith({ inbound_enabled: true, tracking_domain: 'links.example.com', mx_verified: true })
    expect(listMarks(both).slice(-2)).toEqual([
      { key: 'mx', isVerified: true },
      { key: 'tracking', isVerified: false },
    ])
  })

  test('has improved only when DNS has a record that is stored as unverified', () => {
    const spf = recordWith({ status: 'verified' })
    const dkim = recordWith({ key: 'dkim' })
    const dns = dnsWith({ spf, dkim })
    expect(hasImproved(domainWith({}), dns)).toBe(true)
    expect(hasImproved(domainWith({ spf_verified: true, dkim_verified: true }), dns)).toBe(false)
    const complete = dnsWith({ spf, dkim: { ...dkim, status: 'verified' } })
    expect(isDone(domainWith({ spf_verified: true, dkim_verified: true }), complete)).toBe(true)
    expect(isDone(domainWith({ spf_verified: true }), complete)).toBe(false)
    expect(isDone(domainWith({ spf_verified: true, dkim_verified: true }), dns)).toBe(false)
    expect(listRecords(dns).map(({ key }) => key)).toEqual(['spf', 'dkim'])
  })

  test('is unproven when it counts as verified and DNS lacks a record', () => {
    const dns = dnsWith({ spf: recordWith({ status: 'verified' }), dkim: recordWith({ key: 'dkim' }) })
    const verified = { status: 'verified' as const, spf_verified: true, dkim_verified: true }
    expect(isUnproven(domainWith(verified), dns)).toBe(true)
    expect(isUnproven(domainWith({ ...verified, records_lost_at: '2026-01-03T00:00:00.000Z' }), dns)).toBe(false)
    expect(isUnproven(domainWith({ ...verified, dkim_verified: false }), dns)).toBe(false)
    expect(isUnproven(domainWith({ dkim_verified: true }), dns)).toBe(false)
  })

  test('is taken from what was typed or pasted', () => {
    for (const typed of ['example.com', ' https://example.com/a?b ', 'ada@example.com', 'HTTP://example.com#x'])
      expect(toTypedDomain(typed)).toBe('example.com')
    expect(toTypedDomain('')).toBe('')
  })

  test('has marks for its records as stored', () => {
    expect(listMarks(domainWith({ spf_verified: true }))[0]).toEqual({ key: 'spf', isVerified: true })
  })
})

describe('a DNS record', () => {
  test('keeps what exists', () => {
    const merged = 'v=spf1 ip4:192.0.2.25 include:_spf.other.test ~all'
    expect(toPublish(recordWith({}))).toBe(VALUE)
    expect(describeKept(recordWith({}))).toBeUndefined()
    const wrong = recordWith({ status: 'wrong', keep: merged })
    expect(toPublish(wrong)).toBe(merged)
    expect(describeKept(wrong)).toContain('There may be only one.')
    const dmarc = recordWith({ key: 'dmarc', status: 'verified', keep: 'v=DMARC1; p=reject' })
    expect(toPublish(dmarc)).toBe('v=DMARC1; p=reject')
    expect(describeKept(dmarc)).toBe('Your existing record. It stays as it is.')
    const inherited = recordWith({ key: 'dmarc', status: 'verified', inherited_from: 'example.com' })
    expect(describeKept(inherited)).toBe('Inherited from example.com: no record is needed here.')
  })

  test('is explained without the advice that its fields repeat', () => {
    expect(toFinding(recordWith({}))).toBe('')
    const elsewhere = 'There is no SPF record at send.example.com. It was found at example.com instead.'
    expect(toFinding(recordWith({ detail: elsewhere }))).toBe('It was found at example.com instead.')
    const kept = {
      status: 'wrong',
      keep: 'v=spf1 a -all',
      detail: 'It is not valid. Replace it with v=spf1 a -all',
    } as const
    expect(toFinding(recordWith(kept))).toBe('It is not valid.')
    const other = 'The SPF record cannot be read. Publish a record without quotes.'
    expect(toFinding(recordWith({ detail: other }))).toBe(other)
    const strange = `Nothing is said of a cure for ${VALUE}`
    expect(toFinding(recordWith({ detail: strange }))).toBe(strange)
  })
})
