/**
 * @module Amazon Route 53: whole sets in XML, with requests signed by AWS Signature Version 4. One batch deletes the set
 * as it was read and creates the new one, so it fails if somebody else was faster.
 */
import { XMLParser } from 'fast-xml-parser'
import { signAws } from '#platform/crypto/sign-aws.ts'
import { DnsApiError } from '../dns-api.ts'
import { type Connect, parseName, parseValue, type StoredRecord } from './zone-api.ts'

type Zone = { Id: string; Name: string; Config?: { PrivateZone?: string } }
type Zones = { ListHostedZonesByNameResponse: { HostedZones: { HostedZone?: Zone[] } } }
type Values = { ResourceRecord: { Value: string }[] }
type RecordSet = { Name: string; Type: string; SetIdentifier?: string; TTL?: string; ResourceRecords?: Values }
type Sets = { ListResourceRecordSetsResponse: { ResourceRecordSets: { ResourceRecordSet?: RecordSet[] } } }

const API = '/2013-04-01'
const SPECIAL = 'an alias or routing policy'
const LISTS = ['HostedZone', 'ResourceRecordSet', 'ResourceRecord']
const parse = (text: string): unknown =>
  new XMLParser({ parseTagValue: false, htmlEntities: true, isArray: (name) => LISTS.includes(name) }).parse(text)

const escapeXml = (text: string): string => text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`)

const formatChange = (action: string, name: string, type: string, ttl: number, values: readonly string[]): string => {
  const records = values.map((value) => `<ResourceRecord><Value>${escapeXml(value)}</Value></ResourceRecord>`).join('')
  const set = `<Name>${name}.</Name><Type>${type}</Type><TTL>${ttl}</TTL><ResourceRecords>${records}</ResourceRecords>`
  return `<Change><Action>${action}</Action><ResourceRecordSet>${set}</ResourceRecordSet></Change>`
}

function toRecords({ Type: type, TTL, SetIdentifier: policy, ResourceRecords: records }: RecordSet): StoredRecord[] {
  if (!records || policy !== undefined) return [{ type, raw: '', value: SPECIAL, ttl: 0 }]
  const toRecord = (raw: string) => ({ type, raw, value: parseValue(type, raw, undefined, 8), ttl: Number(TTL) })
  return records.ResourceRecord.map(({ Value }) => toRecord(Value))
}

export const route53: Connect = (api, { access_key_id: id = '', secret_access_key: secret = '' }, { clock }) => ({
  parse,
  authenticate: (request) => signAws(request, id, secret, 'us-east-1/route53', clock.now()),
  async findPath(zone) {
    const reply = await api.call<Zones>('GET', `${API}/hostedzonesbyname?dnsname=${zone}.&maxitems=100`)
    const { HostedZone: zones = [] } = reply.ListHostedZonesByNameResponse.HostedZones
    const isPublic = ({ Name, Config }: Zone) => parseName(Name) === zone && Config?.PrivateZone !== 'true'
    const [one, other] = zones.filter(isPublic)
    if (!other) return one && `${API}/hostedzone/${one.Id.replace('/hostedzone/', '')}/rrset`
    const advice = 'Delete those whose name servers are not those of the domain.'
    throw new DnsApiError('rejected', `Amazon Route 53 has several public hosted zones named ${zone}. ${advice}`)
  },
  async list(path, _zone, name) {
    // The page begins with this name, and has room for its types and weighted sets.
    const query = `maxitems=300&name=${name.replace('*', '%2A')}.`
    const { ListResourceRecordSetsResponse: page } = await api.call<Sets>('GET', `${path}?${query}`)
    const { ResourceRecordSet: sets = [] } = page.ResourceRecordSets
    // It writes a wildcard as an escape.
    return sets.filter(({ Name }) => parseName(Name.replace('\\052', '*')) === name).flatMap(toRecords)
  },
  async apply({ path, name, type, ttl, current, raws }) {
    if (current.some(({ value }) => value === SPECIAL))
      throw new DnsApiError('rejected', `The ${type} record of ${name} is ${SPECIAL} there. Change it by hand.`)
    const before = current.map(({ raw }) => raw)
    const deletion = current.length === 0 ? '' : formatChange('DELETE', name, type, ttl, before)
    const changes = `<ChangeBatch><Changes>${deletion}${formatChange('CREATE', name, type, ttl, raws)}</Changes></ChangeBatch>`
    const root = 'ChangeResourceRecordSetsRequest'
    const body = `<${root} xmlns="https://route53.amazonaws.com/doc/2013-04-01/">${changes}</${root}>`
    await api.call('POST', `${path}/`, body)
  },
})
