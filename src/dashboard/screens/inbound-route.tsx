/** @module One inbound route: its addresses, its URL, its deliveries; and the form of a new one. */
import { Alert, Group, NativeSelect, Stack, Switch, Text, TextInput } from '@mantine/core'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { CreateInboundRouteRequest, InboundRoute, UpdateInboundRouteRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import {
  ActionButton,
  bindText,
  CODE_INPUT,
  DeleteButton,
  Form,
  FormError,
  findFieldError,
  SmallAction,
} from '../parts/form.tsx'
import { SmallLink } from '../parts/links.tsx'
import { ListBody, ListFilters, useList } from '../parts/list.tsx'
import { Facts, Page, RecordPage, Section, useEscape } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { useAllDomains } from './domains/queries.ts'
import { ROUTE_DELIVERY_FILTERS } from './filters.ts'
import { Deliveries } from './inbound/deliveries.tsx'
import { formatRoute, isDeactivated, MATCH_TYPE_WORDS } from './inbound/format.ts'
import { ReplayRange } from './inbound/replay-range.tsx'
import { RouteState } from './inbound-routes.tsx'

const screen = getRouteApi('/inbound/routes/$id')

export function InboundRouteNewScreen() {
  const navigate = useNavigate()
  const save = useChange(api.inboundRoutes.create, 'inboundRoutes')
  useEscape(() => void navigate({ to: '/inbound/routes' }))
  return (
    <Page title="Create a route">
      <SmallLink to="/inbound/routes">All routes</SmallLink>
      <RouteForm
        label="Create the route"
        isBusy={save.isPending}
        error={save.error}
        onSave={(values) =>
          save.mutate(values, {
            onSuccess: ({ data }) => void navigate({ to: `/inbound/routes/${data.id}` as never }),
          })
        }
      />
    </Page>
  )
}

export default function InboundRouteScreen() {
  const { id } = screen.useParams()
  const query = useData(read.inboundRoutes.get(id))
  const { data: domains = [] } = useAllDomains()
  const domain = domains.find((one) => one.id === query.data?.domain_id)
  return (
    <RecordPage
      title={query.data ? formatRoute(query.data, domain?.domain ?? '…') : 'Route'}
      list="/inbound/routes"
      listName="All routes"
      query={query}
      missing="This account has no route with this id. It may have been deleted."
    >
      {(route) => <RouteView key={route.id} route={route} />}
    </RecordPage>
  )
}

interface RouteProps {
  readonly route: InboundRoute
}

function RouteView({ route }: RouteProps) {
  const save = useChange((body: UpdateInboundRouteRequest) => api.inboundRoutes.update(route.id, body), 'inboundRoutes')
  const [saved, setSaved] = useState<string>()
  const change = (values: UpdateInboundRouteRequest, message: string) =>
    save.mutate(values, { onSuccess: () => setSaved(message) })
  const activate = (isActive: boolean) =>
    change({ is_active: isActive }, isActive ? 'The route is active.' : 'The route is inactive; it gets no mail.')
  return (
    <Stack gap="lg">
      <Stack gap="sm">
        <Group gap="lg">
          <RouteState route={route} />
        </Group>
        {isDeactivated(route) && (
          <Alert color="red" variant="light" title="Nothing is posted to its URL any more">
            <Stack gap="xs" align="flex-start">
              <Text>
                The webhook was <bdi>{route.last_failure_reason}</bdi>
                {route.last_failure_at && (
                  <>
                    , the last at <Time iso={route.last_failure_at} isExact />
                  </>
                )}
                . Mail still arrives and is stored. Mend the receiver, start posting again, then replay what was missed.
              </Text>
              <ActionButton size="xs" needs="developer" loading={save.isPending} onClick={() => activate(true)}>
                Start posting again
              </ActionButton>
            </Stack>
          </Alert>
        )}
        <Facts
          facts={[
            ['Failures in a row', route.webhook_url !== null && String(route.failure_count)],
            ['Last success', route.last_success_at && <Time iso={route.last_success_at} isExact />],
            ['Last failure', route.last_failure_at && <Time iso={route.last_failure_at} isExact />],
            ['Reason', !isDeactivated(route) && route.last_failure_reason],
            ['Created', <Time key="created" iso={route.created_at} isExact />],
            ['Id', route.id],
          ]}
        />
        <Group gap="xs">
          <SmallAction needs="developer" loading={save.isPending} onClick={() => activate(!route.is_active)}>
            {route.is_active ? 'Deactivate' : 'Activate'}
          </SmallAction>
          <DeleteRoute route={route} />
          <SmallLink to="/inbound" search={{ route_id: route.id }}>
            Its received mail
          </SmallLink>
        </Group>
        <div role="status">{saved && !save.error && <Text size="sm">{saved}</Text>}</div>
      </Stack>
      <Section title="Change">
        <RouteForm
          route={route}
          label="Save the route"
          isBusy={save.isPending}
          error={save.error}
          onSave={(values) => {
            const changes = toChange(route, values)
            if (Object.keys(changes).length === 0) setSaved('Nothing was changed.')
            else change(changes, 'The route was saved.')
          }}
        />
      </Section>
      <Section title="Deliveries">
        <RouteDeliveries route={route} />
      </Section>
    </Stack>
  )
}

const DeleteRoute = ({ route }: RouteProps) => (
  <DeleteButton
    label="Delete"
    size="xs"
    title="Delete this route?"
    confirm="Delete the route"
    remove={() => api.inboundRoutes.delete(route.id)}
    refreshes={[['inboundRoutes', 'list']]}
    leadsTo="/inbound/routes"
  >
    <Text>
      Its mail is kept, its deliveries are deleted, and nothing more is posted. The next route that matches gets later
      mail.
    </Text>
  </DeleteButton>
)

type RouteTexts = Readonly<Record<'domain_id' | 'match_type' | 'pattern' | 'priority' | 'webhook_url', string>>

const toBody = ({
  domain_id,
  match_type,
  pattern,
  priority,
  webhook_url: url,
}: RouteTexts): CreateInboundRouteRequest => ({
  domain_id,
  match_type: match_type as InboundRoute['match_type'],
  pattern: match_type === 'catch_all' ? '' : pattern.trim(),
  // What is no number gets the server's answer.
  priority: priority.trim() === '' ? 0 : Number(priority),
  webhook_url: url.trim() === '' ? null : url.trim(),
})

/** Only what is different, so that two people who change different fields lose nothing. */
const toChange = (route: InboundRoute, wanted: CreateInboundRouteRequest): UpdateInboundRouteRequest =>
  Object.fromEntries(Object.entries(wanted).filter(([name, value]) => Reflect.get(route, name) !== value))

const toTexts = (route: InboundRoute | undefined): RouteTexts => ({
  domain_id: route?.domain_id ?? '',
  match_type: route?.match_type ?? 'exact',
  pattern: route?.pattern ?? '',
  priority: String(route?.priority ?? 0),
  webhook_url: route?.webhook_url ?? '',
})

interface RouteFormProps {
  readonly route?: InboundRoute
  readonly label: string
  readonly isBusy: boolean
  readonly error: unknown
  onSave(body: CreateInboundRouteRequest): void
}

function RouteForm({ route, label, isBusy, error, onSave }: RouteFormProps) {
  const [typed, setTyped] = useState<Partial<RouteTexts>>({})
  const [isActive, setIsActive] = useState(true)
  const { data: domains = [] } = useAllDomains()
  const reason = useAllowed('developer')
  // Filled in again when the route was changed elsewhere, apart from what was typed.
  const texts: RouteTexts = { ...toTexts(route), ...typed }
  const values = { ...texts, domain_id: texts.domain_id || domains[0]?.id || '' }
  const domainName = domains.find(({ id }) => id === values.domain_id)?.domain ?? 'example.com'
  const field = (name: keyof RouteTexts) => ({
    ...bindText(values[name], (value) => setTyped((before) => ({ ...before, [name]: value }))),
    error: findFieldError(error, name),
  })
  const save = () => onSave({ ...toBody(values), ...(route === undefined && { is_active: isActive }) })
  const submit = () => {
    if (reason === undefined) save()
  }
  return (
    <Form onSubmit={submit} maw={560} gap="sm">
      <NativeSelect
        {...field('domain_id')}
        label="Domain"
        data={domains.map(({ id, domain: name }) => ({ value: id, label: name }))}
      />
      <NativeSelect
        {...field('match_type')}
        label="Matches"
        data={Object.entries(MATCH_TYPE_WORDS).map(([value, word]) => ({ value, label: word }))}
      />
      {values.match_type !== 'catch_all' && (
        <TextInput
          {...field('pattern')}
          {...CODE_INPUT}
          label={values.match_type === 'exact' ? 'Address' : 'Beginning of the address'}
          description={
            values.match_type === 'exact'
              ? `The part before @${domainName}, such as support. It matches support+anything too.`
              : `For example, sales- matches sales-berlin@${domainName}.`
          }
        />
      )}
      <TextInput
        {...field('webhook_url')}
        {...CODE_INPUT}
        label="URL"
        description="The message is posted there, signed, over https. Leave it empty to only store the mail."
        placeholder="https://example.com/inbound"
        type="url"
      />
      <TextInput
        {...field('priority')}
        label="Priority"
        description="A whole number; the lowest is tried first."
        inputMode="numeric"
      />
      {route === undefined && (
        <Switch label="Active" checked={isActive} onChange={(event) => setIsActive(event.currentTarget.checked)} />
      )}
      <FormError error={error} fields={Object.keys(values)} />
      <Group>
        <ActionButton
          reason={reason ?? (domains.length === 0 ? 'A route belongs to a domain; add a domain first.' : undefined)}
          loading={isBusy}
          onClick={save}
        >
          {label}
        </ActionButton>
        {/* Enter in a field sends the form; the button above can say why it is disabled. */}
        <button type="submit" hidden aria-hidden="true" tabIndex={-1} />
      </Group>
    </Form>
  )
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
