/** @module One inbound route: its addresses, its URL, its deliveries; and the form of a new one. */
import { Group, Stack, Text } from '@mantine/core'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import type { CreateInboundRouteRequest, InboundRoute, UpdateInboundRouteRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { RunButton } from '../parts/buttons.tsx'
import { CopyText } from '../parts/copy.tsx'
import { DeleteButton, DialogButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import type { Field, Values } from '../parts/fields.ts'
import { ButtonLink } from '../parts/links.tsx'
import { ListBody, ListFilters, useList } from '../parts/list.tsx'
import { Facts, Page, RecordPage, Section, useEscape } from '../parts/page.tsx'
import { ReplayDialog } from '../parts/replay-dialog.tsx'
import { Notice } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { ROUTE_DELIVERY_FILTERS } from './filters.ts'
import { formatRoute, isDeactivated, MATCH_TYPE_WORDS } from './inbound/format.ts'
import { Deliveries } from './inbound/marks.tsx'
import { RouteState } from './inbound-routes.tsx'
import { useAllDomains } from './queries.ts'

const screen = getRouteApi('/inbound/routes/$id')

export function InboundRouteNewScreen() {
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/inbound/routes' }))
  const { fields, reason } = useRouteFields()
  return (
    <Page title="Create a route" back={{ label: 'All routes', target: { to: '/inbound/routes' } }}>
      <FieldForm
        {...FORM}
        reason={reason}
        label="Create the route"
        fields={(values) => [...fields(values), { name: 'is_active', label: 'Active', kind: 'switch' }]}
        initial={{ priority: 0, is_active: true }}
        refreshes={['inboundRoutes']}
        run={(body: CreateInboundRouteRequest) => api.inboundRoutes.create({ pattern: '', webhook_url: null, ...body })}
        onDone={({ data }) => navigate({ to: '/inbound/routes/$id', params: { id: data.id } })}
      />
    </Page>
  )
}

const FORM = { maw: 560, gap: 'sm', needs: 'developer' } as const

export default function InboundRouteScreen() {
  const { id } = screen.useParams()
  const query = useData(read.inboundRoutes.get(id))
  const { data: domains = [] } = useAllDomains()
  const domain = domains.find((one) => one.id === query.data?.domain_id)
  return (
    <RecordPage
      title={query.data ? formatRoute(query.data, domain?.domain ?? '…') : 'Route'}
      list={{ to: '/inbound/routes' }}
      listName="All routes"
      query={query}
      status={query.data && <RouteState route={query.data} />}
    >
      {(route) => <RouteView key={route.id} route={route} />}
    </RecordPage>
  )
}

interface RouteProps {
  readonly route: InboundRoute
}

function RouteView({ route }: RouteProps) {
  const { fields, reason } = useRouteFields()
  const activation = (isActive: boolean) =>
    ({
      size: 'xs',
      needs: 'developer',
      refreshes: ['inboundRoutes'],
      run: () => api.inboundRoutes.update(route.id, { is_active: isActive }),
      done: isActive ? 'The route is active.' : 'The route is inactive; it gets no mail.',
    }) as const
  return (
    <Stack gap="lg">
      {isDeactivated(route) && (
        <Notice
          tone="bad"
          title="Nothing is posted to its URL any more."
          action={<RunButton label="Start posting again" {...activation(true)} />}
        >
          The webhook was <bdi>{route.last_failure_reason}</bdi>
          {route.last_failure_at && <Time before=", the last at " iso={route.last_failure_at} />}. Mail is still stored.
          Repair the receiver, start again, then replay what was missed.
        </Notice>
      )}
      <Group gap="xs">
        <ButtonLink size="xs" variant="default" to="/inbound" search={{ route_id: route.id }}>
          Its received mail
        </ButtonLink>
        <RunButton
          label={route.is_active ? 'Deactivate' : 'Activate'}
          variant="default"
          {...activation(!route.is_active)}
        />
        <DeleteRoute route={route} />
      </Group>
      <Section title="Change">
        <FieldForm
          {...FORM}
          reason={reason}
          done="The route was saved."
          fields={fields}
          stored={route}
          refreshes={['inboundRoutes']}
          run={(body: UpdateInboundRouteRequest) =>
            api.inboundRoutes.update(route.id, body.match_type === 'catch_all' ? { ...body, pattern: '' } : body)
          }
        />
      </Section>
      <Section title="Deliveries">
        <RouteDeliveries route={route} />
      </Section>
      <Section title="Details">
        <Facts
          facts={[
            ['Failures in a row', route.failure_count > 0 && String(route.failure_count)],
            ['Last success', route.last_success_at && <Time iso={route.last_success_at} />],
            ['Last failure', route.last_failure_at && <Time iso={route.last_failure_at} />],
            ['Reason', !isDeactivated(route) && route.last_failure_reason],
            ['Created', <Time key="created" iso={route.created_at} />],
            ['Id', <CopyText key="id" value={route.id} what="id" />],
          ]}
        />
      </Section>
    </Stack>
  )
}

const DeleteRoute = ({ route }: RouteProps) => (
  <DeleteButton
    size="xs"
    noun="route"
    remove={() => api.inboundRoutes.delete(route.id)}
    refreshes={[['inboundRoutes', 'list']]}
    leadsTo={{ to: '/inbound/routes' }}
  >
    Its mail is kept, its deliveries are deleted, and nothing more is posted. The next route that matches gets later
    mail.
  </DeleteButton>
)

type RouteField = Field<Exclude<keyof CreateInboundRouteRequest, 'is_active'>>

function useRouteFields() {
  const { data: domains = [] } = useAllDomains()
  const reason = domains.length === 0 ? 'A route belongs to a domain; add a domain first.' : undefined
  const fields = ({ match_type: type = 'exact', domain_id: id }: Values): readonly RouteField[] => {
    const name = (domains.find((one) => one.id === id) ?? domains[0])?.domain ?? 'example.com'
    return [
      {
        name: 'domain_id',
        label: 'Domain',
        kind: 'choice',
        options: domains.map(({ id: value, domain: label }) => ({ value, label })),
      },
      {
        name: 'match_type',
        label: 'Matches',
        kind: 'choice',
        options: Object.entries(MATCH_TYPE_WORDS).map(([value, label]) => ({ value, label })),
      },
      ...(type === 'catch_all'
        ? []
        : [
            {
              name: 'pattern',
              kind: 'code',
              ...(type === 'exact'
                ? {
                    label: 'Address',
                    hint: `The part before @${name}, such as support. It matches support+anything too.`,
                  }
                : { label: 'Beginning of the address', hint: `For example, sales- matches sales-berlin@${name}.` }),
            } as const,
          ]),
      {
        name: 'webhook_url',
        label: 'URL',
        kind: 'code',
        hint: 'The message is posted there, signed, over https. Leave it empty to only store the mail.',
        placeholder: 'https://example.com/inbound',
      },
      {
        name: 'forward_to',
        label: 'Forward to',
        kind: 'words',
        hint: 'Addresses at your verified domains, or of users of the team, that each message is sent on to.',
      },
      { name: 'priority', label: 'Priority', kind: 'number', hint: 'A whole number; the lowest is tried first.' },
    ]
  }
  return { fields, reason }
}

function RouteDeliveries({ route }: RouteProps) {
  const list = useList({
    read: (query) => read.inboundRoutes.listDeliveries(route.id, query),
    filters: ROUTE_DELIVERY_FILTERS,
    isConcerned: ({ event_type: type }) => type === 'email.inbound',
  })
  return (
    <Stack gap="sm">
      <Group>
        <ReplayRange route={route} />
      </Group>
      {!list.isEmpty && <ListFilters list={list} />}
      <ListBody
        list={list}
        noun="delivery"
        empty={
          <Text>
            {route.webhook_url === null
              ? 'Nothing is posted: the route has no URL.'
              : 'Each message that is posted to the URL appears here, with the response.'}
          </Text>
        }
      >
        {(rows) => <Deliveries deliveries={rows} hasEmails />}
      </ListBody>
    </Stack>
  )
}

/** Why nothing can be replayed; undefined: it can. */
const findObstacle = (route: InboundRoute): string | undefined =>
  route.webhook_url === null
    ? 'The route has no URL.'
    : !route.is_active || isDeactivated(route)
      ? 'Nothing is posted to its URL now.'
      : undefined

const ReplayRange = ({ route }: { readonly route: InboundRoute }) => (
  <DialogButton label="Replay a range of time" variant="default" needs="developer" reason={findObstacle(route)}>
    {(close) => (
      <ReplayDialog
        title="Send mail to the URL again"
        noun="message"
        undelivered={{ label: 'Only mail that was not accepted' }}
        count={(range) => read.inboundRoutes.countReplay(route.id, { ...range })}
        refreshes={[['inboundRoutes', 'listDeliveries', route.id]]}
        run={(range) => api.inboundRoutes.replay(route.id, range)}
        onClose={close}
      >
        <Text size="sm">
          The messages of this route in that time are posted again, at most 10,000 at once. Your receiver should
          recognise those that it has by inbound_email_id.
        </Text>
      </ReplayDialog>
    )}
  </DialogButton>
)
