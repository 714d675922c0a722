/**
 * @module Stubs of the HTTP APIs of seven DNS providers, by their public descriptions: paths, authentication, required
 * fields, form of data, limits, paging and errors. They reject what the real ones reject.
 */
import { createHash } from 'node:crypto'
import { XMLParser } from 'fast-xml-parser'
import { signAws } from '#platform/crypto/sign-aws.ts'
import {
  findZone,
  json,
  type ProviderStub,
  Refusal,
  readBody,
  requireTtl,
  type StubRequest,
  type StubZone,
  toServed,
  type ZoneRecord,
} from './zone.ts'

const TOKEN = 'a'.repeat(40)

function requireToken({ headers }: StubRequest, scheme = 'Bearer', token = TOKEN): void {
  if (headers['authorization'] !== `${scheme} ${token}`) throw new Refusal(401, 'Invalid token.')
}

const toRelative = (zone: StubZone, name: string, apex: string): string =>
  name === zone.name ? apex : name.slice(0, -zone.name.length - 1)

const at = (zone: StubZone, name: string): ZoneRecord[] => zone.records.filter((record) => record.name === name)

/** The first page of items, and whether there are more. */
function firstPage<T>(items: readonly T[], query: URLSearchParams, maxPerPage: number) {
  const size = Number(query.get('per_page') ?? 20)
  if (size > maxPerPage) throw new Refusal(400, `per_page must be at most ${maxPerPage}.`)
  return { items: items.slice(0, size), hasMore: items.length > size }
}

type Value = Pick<ZoneRecord, 'data' | 'extra'>

/** All records of the set are replaced at once. */
function replaceSet(zone: StubZone, name: string, type: string, ttl: number, values: Value[]) {
  const before = zone.records
  const relative = toRelative(zone, name, '')
  zone.records = before.filter((record) => record.name !== name || record.type !== type)
  try {
    for (const { data, extra } of values) zone.add(relative, type, data, ttl, extra)
  } catch (error) {
    zone.records = before
    throw error
  }
  zone.publish()
}

const cloudflare: ProviderStub = {
  name: 'cloudflare',
  credentials: { token: TOKEN },
  describe: ({ code, message }) =>
    JSON.stringify({ success: false, errors: [{ code, message }], messages: [], result: null }),
  answer(request, zones) {
    const { method, path, query, body } = request
    if (request.headers['authorization'] !== `Bearer ${TOKEN}`) throw new Refusal(400, 'Invalid request headers', 6003)
    if (path === '/zones' && method === 'GET') {
      const found = zones.filter(({ name }) => !query.has('name') || name === query.get('name'))
      const result = found.map(({ name }) => ({ id: `id-${name}`, name, status: 'active' }))
      return json({ success: true, errors: [], result, result_info: { page: 1, total_pages: 1 } })
    }
    const [, zoneId, id] = /^\/zones\/id-([^/]+)\/dns_records(?:\/(\d+))?$/.exec(path) ?? []
    const zone = findZone(zones, zoneId)
    if (method === 'GET') {
      const name = query.get('name.exact')
      const found = zone.records.filter((record) => name === null || record.name === name)
      const { items, hasMore } = firstPage(found, query, 5_000_000)
      const result = items.map((record) => {
        const [priority, host] = record.data.split(' ')
        const isMx = record.type === 'MX'
        const content = isMx ? host?.slice(0, -1) : record.type === 'CNAME' ? record.data.slice(0, -1) : record.data
        return { ...record, id: String(record.id), content, ...(isMx && { priority: Number(priority) }) }
      })
      return json({ success: true, errors: [], result, result_info: { page: 1, total_pages: hasMore ? 2 : 1 } })
    }
    if (method === 'DELETE') zone.remove(Number(id))
    else {
      type Body = { type: string; name: string; content: string; ttl: number; priority?: number }
      const fields = readBody<Body>(body, ['type', 'name', 'content', 'ttl'], ['priority', 'proxied'])
      if (fields.name !== zone.name && !fields.name.endsWith(`.${zone.name}`))
        throw new Refusal(400, 'Wrong name.', 9000)
      if (fields.ttl !== 1) requireTtl(fields.ttl, 60, 86_400)
      if (fields.type === 'MX' && fields.priority === undefined) throw new Refusal(400, 'priority is required', 9100)
      if (fields.type !== 'TXT' && fields.content.endsWith('.'))
        throw new Refusal(400, 'Content for record is invalid.', 9007)
      const host = `${fields.content}.`
      const data = fields.type === 'TXT' ? fields.content : fields.type === 'MX' ? `${fields.priority} ${host}` : host
      if (method === 'POST') zone.add(toRelative(zone, fields.name, ''), fields.type, data, fields.ttl)
      else {
        const record = zone.records.find((one) => String(one.id) === id)
        if (!record) throw new Refusal(404, 'Record does not exist.', 81_044)
        zone.check(record.name, record.type, data, record)
        Object.assign(record, { data, ttl: fields.ttl })
      }
    }
    zone.publish()
    return json({ success: true, errors: [], messages: [], result: { id: id ?? '1' } })
  },
}

const HETZNER_TOKEN = 'h'.repeat(64)
const hetzner: ProviderStub = {
  name: 'hetzner',
  credentials: { token: HETZNER_TOKEN },
  describe: ({ message, code }) => JSON.stringify({ error: { code: String(code), message } }),
  answer(request, zones) {
    const { method, path, query, body } = request
    requireToken(request, 'Bearer', HETZNER_TOKEN)
    const changed = zones[Number(/^\/actions\/(\d+)$/.exec(path)?.[1])]
    if (changed) {
      changed.endAction?.()
      changed.endAction = undefined
      return json({ action: { id: 1, status: 'success', error: null } })
    }
    const [, zoneName, isSets, name, type] =
      /^\/zones\/([^/]+)(\/rrsets(?:\/([^/]+)\/([A-Z]+)\/actions\/set_records)?)?$/.exec(path) ?? []
    const zone = findZone(zones, zoneName)
    if (!isSets) return json({ zone: { id: 1, name: zone.name, mode: 'primary', ttl: 3600 } })
    if (method === 'GET') {
      const found = at(zone, zone.toFull(query.get('name') ?? ''))
      const sets = [...Map.groupBy(found, (record) => record.type)].map(([type, records]) => ({
        name: query.get('name'),
        type,
        ttl: records[0]?.ttl ?? null,
        records: records.map(({ data: value, extra: comment = '' }) => ({ value, comment })),
      }))
      return json({ rrsets: firstPage(sets, query, 50).items })
    }
    type Wire = { value: string; comment?: string }
    type Body = { name: string; type: string; ttl: number; records: Wire[] }
    const fields = name
      ? { ...readBody<Body>(body, ['records']), name, type: type ?? '' }
      : readBody<Body>(body, ['name', 'type', 'records'], ['ttl', 'labels'])
    const full = zone.toFull(fields.name)
    const existing = at(zone, full).find((record) => record.type === fields.type)
    if (!name && existing) throw new Refusal(409, 'RRSet already exists')
    if (name && !existing) throw new Refusal(404, 'RRSet not found')
    if (zone.endAction) throw new Refusal(423, 'There is already an action running.')
    const ttl = existing?.ttl ?? requireTtl(fields.ttl, 60, 2_147_483_647)
    const toValue = ({ value: data, comment: extra }: Wire) => (extra === undefined ? { data } : { data, extra })
    const records = fields.records.map(toValue)
    for (const { data } of existing ? [] : records) zone.check(full, fields.type, data)
    zone.endAction = () => replaceSet(zone, full, fields.type, ttl, records)
    return json({ action: { id: zones.indexOf(zone), status: 'running', error: null } }, 201)
  },
}

const desec: ProviderStub = {
  name: 'desec',
  credentials: { token: TOKEN },
  describe: ({ message, status }) =>
    JSON.stringify(status === 400 ? [{ non_field_errors: [message] }] : { detail: message }),
  answer(request, zones) {
    const { method, path, query, body } = request
    requireToken(request, 'Token')
    if (path === '/domains/') {
      const name = query.get('owns_qname') ?? ''
      const owners = zones.filter((zone) => name === zone.name || name.endsWith(`.${zone.name}`))
      const [owner] = owners.sort((a, b) => b.name.length - a.name.length)
      return json(owner ? [{ name: owner.name, minimum_ttl: 3600, published: null }] : [])
    }
    const zone = findZone(zones, /^\/domains\/([^/]+)\/rrsets\/$/.exec(path)?.[1])
    if (method === 'GET') {
      const subname = query.get('subname')
      const found = subname === null ? zone.records : at(zone, zone.toFull(subname))
      const groups = [...Map.groupBy(found, ({ name, type }) => `${name} ${type}`).values()]
      if (groups.length > 500) throw new Refusal(400, 'Pagination required.')
      const format = ([first, ...rest]: ZoneRecord[]) =>
        first && { ...first, name: `${first.name}.`, records: [first, ...rest].map(({ data }) => data) }
      return json(groups.map(format))
    }
    type Set = { subname: string; type: string; ttl: number; records: string[] }
    const sets: Set[] = JSON.parse(body)
    for (const part of sets) {
      const set = readBody<Set>(JSON.stringify(part), ['type', 'ttl', 'records'], ['subname'])
      requireTtl(set.ttl, 3600, 86_400)
      const records = set.records.map((data) => ({ data }))
      replaceSet(zone, zone.toFull(set.subname), set.type, set.ttl, records)
    }
    return json(sets)
  },
}

const ovh: ProviderStub = {
  name: 'ovh',
  credentials: { application_key: 'ak0123456789', application_secret: 'as'.repeat(16), consumer_key: 'ck'.repeat(16) },
  describe: ({ message, code }) => JSON.stringify({ class: 'Client::BadRequest', errorCode: code, message }),
  answer(request, zones, now) {
    const { method, path, headers, query, body } = request
    const serverTime = Math.round(now / 1000) + 7200
    if (path === '/auth/time') return json(serverTime)
    const { application_key: key, application_secret: secret, consumer_key: consumer } = this.credentials
    const time = headers['x-ovh-timestamp'] ?? ''
    if (headers['x-ovh-application'] !== key) throw new Refusal(403, 'This application key is invalid', 'INVALID_KEY')
    if (headers['x-ovh-consumer'] !== consumer)
      throw new Refusal(403, 'This credential is not valid', 'INVALID_CREDENTIAL')
    if (Math.abs(Number(time) - serverTime) > 30) throw new Refusal(400, 'Query out of time', 'QUERY_TIME_OUT')
    const signed = `${secret}+${consumer}+${method}+${headers['x-url']}+${body}+${time}`
    const sum = createHash('sha1').update(signed).digest('hex')
    if (headers['x-ovh-signature'] !== `$1$${sum}`) throw new Refusal(400, 'Invalid signature', 'INVALID_SIGNATURE')
    const [, zoneName, action, id] = /^\/domain\/zone\/([^/]+)\/(status|refresh|record)(?:\/(\d+))?$/.exec(path) ?? []
    const zone = findZone(zones, zoneName)
    if (action === 'status') return json({ isDeployed: true, errors: [], warnings: [] })
    if (action === 'refresh') {
      zone.publish()
      return json(null)
    }

    const toWire = (record: ZoneRecord) => ({
      id: record.id,
      zone: zone.name,
      fieldType: record.type,
      subDomain: toRelative(zone, record.name, ''),
      target: record.data,
      ttl: record.ttl === 3600 ? 0 : record.ttl,
    })
    const record = zone.records.find((one) => String(one.id) === id)
    if (id !== undefined && !record) throw new Refusal(404, 'This object does not exist')
    if (method === 'GET' && record) return json(toWire(record))
    if (method === 'GET') {
      // SQL LIKE.
      const pattern = new RegExp(`^${(query.get('subDomain') ?? '').replaceAll(/[.*]/g, '\\$&').replaceAll('_', '.')}$`)
      return json(zone.records.filter(({ name }) => pattern.test(toRelative(zone, name, ''))).map((one) => one.id))
    }
    if (method === 'DELETE') {
      zone.remove(Number(id))
      return json(null)
    }
    type Body = { fieldType: string; subDomain: string; target: string; ttl: number }
    if (record) {
      const { target, ttl } = readBody<Body>(body, [], ['subDomain', 'target', 'ttl'])
      zone.check(record.name, record.type, target, record)
      Object.assign(record, { data: target, ttl: requireTtl(ttl, 60, 2_147_483_647) })
      return json(null)
    }
    const fields = readBody<Body>(body, ['fieldType', 'target'], ['subDomain', 'ttl'])
    const ttl = requireTtl(fields.ttl, 60, 2_147_483_647)
    return json(toWire(zone.add(fields.subDomain, fields.fieldType, fields.target, ttl)))
  },
}

const gandi: ProviderStub = {
  name: 'gandi',
  credentials: { token: TOKEN },
  describe: ({ status, message }) =>
    JSON.stringify({ object: 'HTTPError', cause: 'Bad Request', code: status, message }),
  answer(request, zones) {
    const { method, path, body } = request
    requireToken(request)
    const [, zoneName, name, type] = /^\/domains\/([^/]+)(?:\/records\/([^/]+)(?:\/([A-Z]+))?)?$/.exec(path) ?? []
    const zone = findZone(zones, zoneName)
    if (name === undefined) return json({ fqdn: zone.name, automatic_snapshots: true })
    if (method === 'GET') {
      const found = at(zone, zone.toFull(name))
      if (found.length === 0) throw new Refusal(404, `Can't find the DNS record ${name} in the zone`)
      return json(
        [...Map.groupBy(found, (record) => record.type)].map(([rrset_type, records]) => ({
          rrset_name: name,
          rrset_type,
          rrset_ttl: records[0]?.ttl,
          rrset_values: records.map(({ data }) => data),
        })),
      )
    }
    if (method !== 'PUT' || !type) throw new Refusal(404, 'The resource could not be found.')
    const set = readBody<{ rrset_values: string[]; rrset_ttl: number }>(body, ['rrset_values'], ['rrset_ttl'])
    const ttl = requireTtl(set.rrset_ttl, 300, 2_592_000)
    const records = set.rrset_values.map((data) => ({ data }))
    replaceSet(zone, zone.toFull(name), type, ttl, records)
    return json({ message: 'DNS Record Created' }, 201)
  },
}

const digitalocean: ProviderStub = {
  name: 'digitalocean',
  credentials: { token: TOKEN },
  describe: ({ message, status }) =>
    JSON.stringify({ id: status === 401 ? 'Unauthorized' : 'unprocessable_entity', message }),
  answer(request, zones) {
    const { method, path, query, body } = request
    requireToken(request)
    const [, zoneName, isRecords, id] = /^\/domains\/([^/]+)(\/records(?:\/(\d+))?)?$/.exec(path) ?? []
    const zone = findZone(zones, zoneName)
    if (!isRecords) return json({ domain: { name: zone.name, ttl: 1800 } })
    const toWire = ({ id, name, type, data, ttl }: ZoneRecord) => {
      const [priority, host = ''] = data.split(' ')
      const text = type === 'MX' ? host : data
      const shown = type === 'TXT' ? toServed(data, type) : /^(MX|CNAME)$/.test(type) ? text.slice(0, -1) : data
      const wire = { id, name: toRelative(zone, name, '@'), type, data: shown === zone.name ? '@' : shown, ttl }
      return { ...wire, priority: type === 'MX' ? Number(priority) : null }
    }
    if (method === 'GET') {
      const name = query.get('name')
      const found = zone.records.filter((record) => name === null || record.name === name)
      const { items, hasMore } = firstPage(found, query, 200)
      const pages = hasMore ? { next: `https://api.digitalocean.com/v2${path}?page=2` } : {}
      return json({ domain_records: items.map(toWire), links: { pages } })
    }
    if (method === 'DELETE') {
      zone.remove(Number(id))
      zone.publish()
      return json(undefined, 204)
    }
    type Body = { type: string; name: string; data: string; ttl: number; priority?: number }
    const required = method === 'POST' ? ['type', 'name', 'data', 'ttl'] : ['type', 'data']
    const fields = readBody<Body>(body, required, ['priority', 'port', 'weight', 'flags', 'tag', 'ttl', 'name'])
    if (fields.type === 'MX' && fields.priority === undefined) throw new Refusal(422, 'Priority is required.')
    if (/^(MX|CNAME)$/.test(fields.type) && !fields.data.endsWith('.'))
      throw new Refusal(422, 'Data needs to end with a dot (.)')
    const strings = fields.data.match(/.{1,255}/g)?.map((part) => `"${part.replaceAll('"', '\\"')}"`) ?? []
    const zoneFile = fields.type === 'TXT' ? strings.join(' ') : fields.data
    if (zoneFile.length > 512) throw new Refusal(422, 'Data is too long.')
    const data = fields.type === 'MX' ? `${fields.priority} ${zoneFile}` : zoneFile
    const record = zone.records.find((one) => String(one.id) === id)
    if (method === 'POST') {
      requireTtl(fields.ttl, 30, 2_147_483_647)
      zone.add(fields.name, fields.type, data, fields.ttl)
    } else {
      if (!record) throw new Refusal(404, 'The resource you requested could not be found.')
      zone.check(record.name, record.type, data, record)
      record.data = data
    }
    zone.publish()
    return json({ domain_record: { id: 1 } }, method === 'POST' ? 201 : 200)
  },
}

const AWS = { access_key_id: 'AKIAEXAMPLE', secret_access_key: 'secret/example+key0123456789' }
const xml = (content: string) => ({ status: 200, body: `<?xml version="1.0" encoding="UTF-8"?>\n${content}` })
const isList = (name: string) => name === 'Change' || name === 'ResourceRecord'
const readXml = (text: string) =>
  new XMLParser({ parseTagValue: false, ignoreAttributes: false, htmlEntities: true, isArray: isList }).parse(text)

/** A vector of AWS proves the function that signs; this, that it signed what arrived, in canonical form. */
function findAwsProblem({ method, headers, path, query, body }: StubRequest, now: number): string | undefined {
  const date = headers['x-amz-date'] ?? ''
  const at = Date.parse(date.replace(/^(....)(..)(..T..)(..)/, '$1-$2-$3:$4:'))
  if (!(Math.abs(at - now) < 300_000)) return 'Signature expired'
  const fields = [...query]
    .map((field) => field.map((one) => encodeURIComponent(one).replaceAll('*', '%2A')).join('='))
    .sort()
  const url = `https://${headers['host']}${path}${fields.length > 0 ? '?' : ''}${fields.join('&')}`
  const request = { method: method as 'GET' | 'POST', url, body }
  const expected = signAws(request, AWS.access_key_id, AWS.secret_access_key, 'us-east-1/route53', at)
  return headers['authorization'] === expected.authorization ? undefined : 'The signature does not match'
}

const route53: ProviderStub = {
  name: 'route53',
  credentials: AWS,
  describe: ({ code, message }) =>
    `<?xml version="1.0"?>\n<ErrorResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${Bun.escapeHTML(message)}</Message></Error><RequestId>1</RequestId></ErrorResponse>`,
  answer(request, zones, now) {
    const { method, path, query, body } = request
    const problem = findAwsProblem(request, now)
    if (problem) throw new Refusal(403, problem, 'SignatureDoesNotMatch')
    if (path === '/2013-04-01/hostedzonesbyname') {
      const format = (id: string, name: string, isPrivate: boolean) =>
        `<HostedZone><Id>/hostedzone/${id}</Id><Name>${name}.</Name><Config><PrivateZone>${isPrivate}</PrivateZone></Config></HostedZone>`
      // Each has a private zone of the same name, as of a VPC.
      const list = zones.map(({ name }) => format(`P${name}`, name, true) + format(`Z${name}`, name, false))
      return xml(
        `<ListHostedZonesByNameResponse><HostedZones>${list.join('')}</HostedZones></ListHostedZonesByNameResponse>`,
      )
    }
    const zone = findZone(zones, /^\/2013-04-01\/hostedzone\/Z([^/]+)\/rrset\/?$/.exec(path)?.[1])
    const format = (values: ZoneRecord[]) => {
      const [first] = values
      const records = values.map(
        ({ data }) => `<ResourceRecord><Value>${Bun.escapeHTML(data)}</Value></ResourceRecord>`,
      )
      const rest =
        first?.extra === 'alias'
          ? '<AliasTarget><DNSName>x.</DNSName></AliasTarget>'
          : `<TTL>${first?.ttl}</TTL><ResourceRecords>${records.join('')}</ResourceRecords>`
      return `<ResourceRecordSet><Name>${first?.name.replace('*', '\\052')}.</Name><Type>${first?.type}</Type>${rest}</ResourceRecordSet>`
    }
    if (method === 'GET') {
      // In the order of names, from the one that is asked for; others follow it.
      const reverse = (name = '') => name.replace(/\.$/, '').split('.').reverse().join('.')
      const from = reverse(query.get('name') ?? '')
      const found = [...Map.groupBy(zone.records, ({ name, type }) => `${name} ${type}`).values()]
        .filter(([first]) => reverse(first?.name) >= from)
        .sort(([a], [b]) => (reverse(a?.name) < reverse(b?.name) ? -1 : 1))
      const shown = found.slice(0, Math.min(300, Number(query.get('maxitems') ?? 300)))
      return xml(
        `<ListResourceRecordSetsResponse><ResourceRecordSets>${shown.map(format).join('')}</ResourceRecordSets><IsTruncated>${shown.length < found.length}</IsTruncated></ListResourceRecordSetsResponse>`,
      )
    }
    const root = readXml(body)['ChangeResourceRecordSetsRequest']
    if (root?.['@_xmlns'] !== 'https://route53.amazonaws.com/doc/2013-04-01/')
      throw new Refusal(400, 'Invalid XML', 'MalformedInput')
    const before = [...zone.records]
    try {
      for (const { Action: action, ResourceRecordSet: set } of root.ChangeBatch.Changes.Change)
        applyChange(zone, action, set)
    } catch (error) {
      zone.records = before
      throw error
    }
    zone.publish()
    return xml(
      '<ChangeResourceRecordSetsResponse><ChangeInfo><Id>/change/C1</Id><Status>PENDING</Status></ChangeInfo></ChangeResourceRecordSetsResponse>',
    )
  },
}

interface AwsSet {
  readonly Name: string
  readonly Type: string
  readonly TTL: string
  readonly ResourceRecords: { readonly ResourceRecord: readonly { readonly Value: string }[] }
}

function applyChange(zone: StubZone, action: string, { Name, Type: type, TTL, ResourceRecords }: AwsSet): void {
  const name = Name.replace(/\.$/, '')
  const values = ResourceRecords.ResourceRecord.map(({ Value }) => Value)
  const existing = at(zone, name).filter((record) => record.type === type)
  const invalid = (why: string) => new Refusal(400, `[Tried to change ${Name} ${type} ${why}]`, 'InvalidChangeBatch')
  if (!/^\d+$/.test(TTL)) throw new Refusal(400, 'Missing field TTL', 'InvalidInput')
  if (action === 'CREATE') {
    if (existing.length > 0) throw invalid('but it already exists')
    for (const data of values) zone.add(toRelative(zone, name, ''), type, data, Number(TTL))
    return
  }
  if (existing.length === 0) throw invalid('but it was not found')
  const isSame = existing.map(({ data }) => data).join() === values.join() && existing[0]?.ttl === Number(TTL)
  if (!isSame) throw invalid('but the values provided do not match the current values')
  zone.records = zone.records.filter((record) => !existing.includes(record))
}

export const STUBS: readonly ProviderStub[] = [cloudflare, hetzner, desec, ovh, gandi, digitalocean, route53]

export function getStub(name: string): ProviderStub {
  const stub = STUBS.find((one) => one.name === name)
  if (!stub) throw new Error(`no stub ${name}`)
  return stub
}
