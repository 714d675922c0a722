/** @module One inbound route: its addresses, its URL, its deliveries; and the form of a new one. */
import { Alert, Anchor, Group, NativeSelect, Stack, Switch, Text, TextInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import type { RouteDelivery, RouteRecord } from '#features/webhooks/inbound-routes/model.ts'
import { request } from '../api/client.ts'
import { isMissing, PAGE_SIZE, routePath, useAllDomains } from '../api/inbound.ts'
import { readAgain, useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { usePage, useRecord } from '../api/read.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton, DeleteButton, FormError, findFieldError } from '../parts/form.tsx'
import { SmallLink } from '../parts/links.tsx'
import { Facts, Page, QueryView, Section, useEscape } from '../parts/page.tsx'
import { Pages } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { Deliveries } from './inbound/deliveries.tsx'
import { DELIVERY_STATES } from './inbound/filters.ts'
import { formatRoute, isDeactivated, MATCH_TYPE_WORDS } from './inbound/format.ts'
import { toDeliveryWord } from './inbound/marks.tsx'
import { ReplayRange } from './inbound/replay-range.tsx'
import { RouteState } from './inbound-routes.tsx'

const api = getRouteApi('/inbound/routes/$id')

const AllRoutes = () => <SmallLink to="/inbound/routes">All routes</SmallLink>

export function InboundRouteNewScreen() {
  const navigate = useNavigate()
  const save = useSave((values) => request<{ data: RouteRecord }>('POST', '/v1/inbound-routes', { body: values }))
  useEscape(() => void navigate({ to: '/inbound/routes' }))
  return (
    <Page title="Create a route">
      <AllRoutes />
      <RouteForm
        label="Create the route"
        isBusy={save.isPending}
        error={save.error}
        onSave={(values) =>
          save.mutate(toNewRoute(values), {
            onSuccess: ({ data }) => void navigate({ to: `/inbound/routes/${data.id}` as never }),
          })
        }
      />
    </Page>
  )
}

/** Changes a route; the lists are read again afterwards. */
function useSave<Input>(change: (input: Input) => Promise<{ data: RouteRecord }>) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: () => queries.invalidateQueries({ queryKey: ['inbound-routes'] }),
  })
}

export default function InboundRouteScreen() {
  const { id } = api.useParams()
  const navigate = useNavigate()
  const query = useRecord<RouteRecord>(['inbound-routes', 'one', id], routePath(id))
  const { data: domains = [] } = useAllDomains()
  const domain = domains.find((one) => one.id === query.data?.domain_id)
  useEscape(() => void navigate({ to: '/inbound/routes' }))
  return (
    <Page title={query.data ? formatRoute(query.data, domain?.domain ?? '…') : 'Route'}>
      <AllRoutes />
      {isMissing(query.error) ? (
        <Text>This account has no route with this id. It may have been deleted.</Text>
      ) : (
        <QueryView query={query}>{(route) => <RouteView key={route.id} route={route} />}</QueryView>
      )}
    </Page>
  )
}

interface RouteProps {
  readonly route: RouteRecord
}

function RouteView({ route }: RouteProps) {
  const save = useSave((change: RouteChange) =>
    request<{ data: RouteRecord }>('PUT', routePath(route.id), { body: change }),
  )
  const [saved, setSaved] = useState<string>()
  const reason = useAllowed('developer')
  const change = (values: RouteChange, message: string) => save.mutate(values, { onSuccess: () => setSaved(message) })
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
              <ActionButton size="xs" reason={reason} loading={save.isPending} onClick={() => activate(true)}>
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
          <ActionButton
            size="xs"
            variant="default"
            reason={reason}
            loading={save.isPending}
            onClick={() => activate(!route.is_active)}
          >
            {route.is_active ? 'Deactivate' : 'Activate'}
          </ActionButton>
          <DeleteRoute route={route} />
          <Anchor component={Link} to="/inbound" search={{ route: route.id } as never} size="sm">
            Its received mail
          </Anchor>
        </Group>
        <div role="status">{saved && !save.error && <Text size="sm">{saved}</Text>}</div>
      </Stack>
      <Section title="Change">
        <RouteForm
          // Filled in again when the route was changed elsewhere, unless something was typed.
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

function DeleteRoute({ route }: RouteProps) {
  const reason = useAllowed('developer')
  const queries = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutation({
    mutationFn: () => request('DELETE', routePath(route.id)),
    onSuccess: async () => {
      await navigate({ to: '/inbound/routes' })
      queries.removeQueries({ queryKey: ['inbound-routes', 'one', route.id] })
      await queries.invalidateQueries({ queryKey: ['inbound-routes'] })
    },
  })
  return (
    <DeleteButton
      label="Delete"
      size="xs"
      reason={reason}
      title="Delete this route?"
      confirm="Delete the route"
      work={remove}
      onConfirm={() => remove.mutate()}
    >
      <Text>
        Its mail is kept, its deliveries are deleted, and nothing more is posted. The next route that matches gets later
        mail.
      </Text>
    </DeleteButton>
  )
}

interface RouteValues {
  readonly domain: string
  readonly type: RouteRecord['match_type']
  readonly pattern: string
  readonly priority: string
  readonly url: string
  readonly isActive: boolean
}

/** The body of a POST or PUT. */
interface RouteChange {
  readonly domain_id?: string
  readonly match_type?: RouteRecord['match_type']
  readonly pattern?: string
  readonly priority?: number
  readonly webhook_url?: string | null
  readonly is_active?: boolean
}

const toNewRoute = ({ domain, type, pattern, priority, url, isActive }: RouteValues) => ({
  domain_id: domain,
  match_type: type,
  pattern: type === 'catch_all' ? '' : pattern.trim(),
  // What is no number gets the server's answer.
  priority: priority.trim() === '' ? 0 : Number(priority),
  webhook_url: url.trim() === '' ? null : url.trim(),
  is_active: isActive,
})

/** Only what is different, so that two people who change different fields lose nothing. */
function toChange(route: RouteRecord, values: RouteValues): RouteChange {
  const wanted = toNewRoute(values)
  return Object.fromEntries(
    Object.entries(wanted).filter(([name, value]) => Reflect.get(route, name) !== value),
  ) as RouteChange
}

const toValues = (route: RouteRecord | undefined): RouteValues => ({
  domain: route?.domain_id ?? '',
  type: route?.match_type ?? 'exact',
  pattern: route?.pattern ?? '',
  priority: String(route?.priority ?? 0),
  url: route?.webhook_url ?? '',
  isActive: route?.is_active ?? true,
})

interface RouteFormProps {
  readonly route?: RouteRecord
  readonly label: string
  readonly isBusy: boolean
  readonly error: unknown
  onSave(values: RouteValues): void
}

function RouteForm({ route, label, isBusy, error, onSave }: RouteFormProps) {
  const [typed, setTyped] = useState<Partial<RouteValues>>({})
  const { data: domains = [] } = useAllDomains()
  const reason = useAllowed('developer')
  const stored = toValues(route)
  const values: RouteValues = { ...stored, ...typed }
  const domain = values.domain || domains[0]?.id || ''
  const domainName = domains.find(({ id }) => id === domain)?.domain ?? 'example.com'
  const set = (change: Partial<RouteValues>) => setTyped((before) => ({ ...before, ...change }))
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (reason === undefined) onSave({ ...values, domain })
  }
  const fieldErrors = ['domain_id', 'match_type', 'pattern', 'priority', 'webhook_url'].map((field) =>
    findFieldError(error, field),
  )
  const [domainError, typeError, patternError, priorityError, urlError] = fieldErrors
  return (
    <form onSubmit={submit} noValidate>
      <Stack maw={560} gap="sm">
        <NativeSelect
          label="Domain"
          data={domains.map(({ id, domain: name }) => ({ value: id, label: name }))}
          value={domain}
          onChange={(event) => set({ domain: event.currentTarget.value })}
          error={domainError}
        />
        <NativeSelect
          label="Matches"
          data={Object.entries(MATCH_TYPE_WORDS).map(([value, word]) => ({ value, label: word }))}
          value={values.type}
          onChange={(event) => set({ type: event.currentTarget.value as RouteValues['type'] })}
          error={typeError}
        />
        {values.type !== 'catch_all' && (
          <TextInput
            label={values.type === 'exact' ? 'Address' : 'Beginning of the address'}
            description={
              values.type === 'exact'
                ? `The part before @${domainName}, such as support. It matches support+anything too.`
                : `For example, sales- matches sales-berlin@${domainName}.`
            }
            value={values.pattern}
            onChange={(event) => set({ pattern: event.currentTarget.value })}
            error={patternError}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
          />
        )}
        <TextInput
          label="URL"
          description="The message is posted there, signed, over https. Leave it empty to only store the mail."
          placeholder="https://example.com/inbound"
          type="url"
          value={values.url}
          onChange={(event) => set({ url: event.currentTarget.value })}
          error={urlError}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
        />
        <TextInput
          label="Priority"
          description="A whole number; the lowest is tried first."
          inputMode="numeric"
          value={values.priority}
          onChange={(event) => set({ priority: event.currentTarget.value })}
          error={priorityError}
        />
        {route === undefined && (
          <Switch
            label="Active"
            checked={values.isActive}
            onChange={(event) => set({ isActive: event.currentTarget.checked })}
          />
        )}
        {fieldErrors.every((message) => message === undefined) && <FormError error={error} />}
        <Group>
          <ActionButton
            reason={reason ?? (domains.length === 0 ? 'A route belongs to a domain; add a domain first.' : undefined)}
            loading={isBusy}
            onClick={() => onSave({ ...values, domain })}
          >
            {label}
          </ActionButton>
          {/* Enter in a field sends the form; the button above can say why it is disabled. */}
          <button type="submit" hidden aria-hidden="true" tabIndex={-1} />
        </Group>
      </Stack>
    </form>
  )
}

function RouteDeliveries({ route }: RouteProps) {
  const { page = 1, status } = api.useSearch()
  const navigate = api.useNavigate()
  const query = usePage<RouteDelivery>(
    ['inbound-routes', 'deliveries', route.id, page, status],
    routePath(route.id, '/deliveries'),
    { page, per_page: PAGE_SIZE, status },
  )
  const refreshSoon = useRefreshSoon(() => readAgain(query))
  useLiveEvents(({ event_type: type }) => {
    if (type === 'email.inbound' && page === 1) refreshSoon()
  })
  return (
    <Stack gap="sm">
      <Group align="flex-end" gap="xs">
        <NativeSelect
          label="State"
          value={status ?? ''}
          data={[
            { value: '', label: 'Any' },
            ...DELIVERY_STATES.map((state) => ({ value: state, label: toDeliveryWord(state) })),
          ]}
          onChange={(event) => {
            const next = event.currentTarget.value
            void navigate({ search: next === '' ? {} : { status: next }, resetScroll: false })
          }}
        />
        <ReplayRange route={route} />
      </Group>
      <QueryView query={query}>
        {({ data, pagination }) => (
          <>
            {data.length === 0 ? (
              <Text>
                {status
                  ? 'No delivery is in this state.'
                  : route.webhook_url === null
                    ? 'Nothing is posted: the route has no URL.'
                    : 'Each message that is posted to the URL appears here, with the response.'}
              </Text>
            ) : (
              <Deliveries deliveries={data} hasEmails />
            )}
            <Pages path={`/inbound/routes/${route.id}`} page={page} totalPages={pagination.total_pages} />
          </>
        )}
      </QueryView>
    </Stack>
  )
}
