/** @module The list of inbound routes, and a test of an address against them. */
import { Button, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { InboundRoute, InboundRouteMatch } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { CODE_INPUT } from '../parts/fields.ts'
import { bindText, Form, FormError, findFieldError } from '../parts/form.tsx'
import { SEARCH_MARK } from '../parts/keyboard.tsx'
import { InlineLink, NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { Section } from '../parts/page.tsx'
import { Notice, StateLabel } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import type { State } from '../parts/tone.ts'
import { formatRoute, isDeactivated, MATCH_TYPE_WORDS } from './inbound/format.ts'
import { InboundNavigation } from './inbound/marks.tsx'
import { toVisible } from './inbound/proof.ts'
import { useAllDomains, useAllRoutes } from './queries.ts'
import { SigningSecret } from './webhooks/secret.tsx'

export default function InboundRoutesScreen() {
  const list = useList({ read: read.inboundRoutes.list })
  const { data: domains } = useAllDomains()
  const hasDomain = domains === undefined || domains.length > 0
  return (
    <ListScreen
      title="Inbound routes"
      list={list}
      columns={toColumns(new Map(domains?.map(({ id, domain }) => [id, domain])))}
      noun="route"
      action={
        <ActionLink
          needs="developer"
          reason={hasDomain ? undefined : 'A route belongs to a domain; add a domain first.'}
          to="/inbound/routes/new"
          label="Create a route"
        />
      }
      navigation={<InboundNavigation />}
      nothing={{
        title: 'Your routes will appear here',
        text: 'A route stores mail for some addresses of a domain, and posts it to a URL if it has one. Of mail without a route, the newest 1,000 messages of a domain are stored.',
        children: !hasDomain && (
          <Text>
            First <InlineLink to="/domains/new">add a domain</InlineLink>.
          </Text>
        ),
      }}
      below={<Tools />}
    />
  )
}

const Tools = () => (
  <>
    <Section
      title="Test an address"
      description="Mailboxes come first, then the route with the lowest priority; of equal ones, that of one address."
    >
      <AddressTest />
    </Section>
    <Section title="Signing secret" description="Signs the requests to the URLs of all routes.">
      <SigningSecret
        reveal={api.inboundRoutes.revealSecret}
        rotate={api.inboundRoutes.rotateSecret}
        title="Replace the secret of all routes?"
        receiver="receivers"
      >
        <Text>
          The new secret signs every later request of every route, including retries. The old one also signs for a day,
          but only in the header webhook-signature: receivers that verify another header must know the new one first.
        </Text>
      </SigningSecret>
    </Section>
  </>
)

const toColumns = (names: ReadonlyMap<string, string>): readonly Column<InboundRoute>[] => [
  column('Addresses', {}, (row) => (
    <NameLink
      to="/inbound/routes/$id"
      params={{ id: row.id }}
      name={formatRoute(row, names.get(row.domain_id) ?? '…')}
      title={MATCH_TYPE_WORDS[row.match_type]}
    />
  )),
  column('Goes to', { width: '38%', phone: 'bare' }, ({ webhook_url: url, forward_to: addresses }) => {
    const targets = [...(url === null ? [] : [url]), ...addresses].join(', ')
    const look = targets ? { title: targets } : { className: 'time-relative' }
    return <span {...look}>{toVisible(targets) || 'Stores only'}</span>
  }),
  column('Priority', { width: '5rem', isNumeric: true }, ({ priority }) => priority),
  column('Status', { width: '9.5rem', phone: 'aside' }, (row) => <RouteState route={row} />),
]

export const RouteState = ({ route }: { readonly route: InboundRoute }) => <StateLabel state={toState(route)} />

function toState(route: InboundRoute): State {
  if (!route.is_active) return { word: 'Inactive', tone: 'neutral', title: 'It gets no mail.' }
  const title = route.last_failure_reason ?? ''
  if (isDeactivated(route)) return { word: 'Posting stopped', tone: 'bad', title }
  return route.failure_count > 0 ? { word: 'Failing', tone: 'warning', title } : { word: 'Active', tone: 'good' }
}

function AddressTest() {
  const [address, setAddress] = useState('')
  const test = useChange(() => api.inboundRoutes.match({ address: address.trim() }))
  const submit = () => {
    if (address.trim() !== '') test.mutate()
  }
  return (
    <Stack gap="sm" maw={640}>
      <Form isRow onSubmit={submit}>
        <TextInput
          {...SEARCH_MARK}
          label="Address"
          placeholder="support@example.com"
          inputMode="email"
          {...bindText(address, setAddress)}
          error={findFieldError(test.error, 'address')}
          flex="1 1 14rem"
          {...CODE_INPUT}
        />
        <Button type="submit" variant="default" loading={test.isPending}>
          Test
        </Button>
      </Form>
      <FormError error={test.error} fields={['address']} />
      <div role="status">{test.data && <MatchResult match={test.data.data} />}</div>
    </Stack>
  )
}

const REJECTIONS: Readonly<Record<string, string>> = {
  unknown_domain: 'this account has no such domain',
  domain_not_verified: 'its domain is not verified',
  inbound_disabled: 'its domain does not receive mail; turn on “Receive mail”',
  server_not_receiving: 'the server does not listen for mail; its operator sets TASSIS_INBOUND_ADDR',
}

function MatchResult({ match }: { readonly match: InboundRouteMatch }) {
  const { address, rejection, mailbox_id: mailbox, route_id: id, domain_id: domain } = match
  const { data: routes } = useAllRoutes()
  const { data: domains = [] } = useAllDomains()
  const found = routes?.find((one) => one.id === id)
  const label = found && formatRoute(found, domains.find((one) => one.id === found.domain_id)?.domain)
  const goal = mailbox ? (
    <>
      the <InlineLink to="/inbound/mailboxes/$id" params={{ id: mailbox }} name="mailbox of this address" /> gets it
    </>
  ) : id ? (
    <>
      the route <InlineLink to="/inbound/routes/$id" params={{ id }} name={label ?? id} /> gets it
      {found && (found.webhook_url ? `, and it is posted to ${toVisible(found.webhook_url)}` : ', and it is stored')}
    </>
  ) : (
    <>no route matches, so it is only stored</>
  )
  return (
    <Notice tone={rejection ? 'warning' : 'good'} title={rejection ? 'Rejected' : 'Accepted'}>
      {rejection ? (
        <>
          Mail for <bdi>{toVisible(address)}</bdi> is rejected: {REJECTIONS[rejection] ?? rejection}.{' '}
          {domain && <InlineLink to="/domains/$id" params={{ id: domain }} name="Open the domain" />}
          {domain && id && <> Once it is accepted, {goal}.</>}
        </>
      ) : (
        <>
          Mail for <bdi>{toVisible(address)}</bdi> is accepted; {goal}.
        </>
      )}
    </Notice>
  )
}
