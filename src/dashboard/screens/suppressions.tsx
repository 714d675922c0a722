/** @module The suppression list: who gets no mail of this account, and why. */
import { Alert, Anchor, Button, Code, Group, List, NativeSelect, Stack, Text, TextInput } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import type { Suppression } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData, usePage } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { useAllowed } from '../api/session.tsx'
import { ActionButton, bindText, CODE_INPUT, DialogFrame, Form, SmallAction, useFields } from '../parts/form.tsx'
import { formatCount } from '../parts/format.ts'
import { SEARCH_MARK } from '../parts/keyboard.tsx'
import { SmallLink, TextLink } from '../parts/links.tsx'
import { Done, EmptyState, LoadingState, Page } from '../parts/page.tsx'
import { useLiveRows } from '../parts/rows.ts'
import { StatusLabel } from '../parts/status.tsx'
import { type Column, CursorPages, DataTable, LiveView } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { parseSuppressionFilters, type SuppressionFilters } from './suppressions/filters.ts'
import {
  describeScope,
  findReason,
  isErased,
  listWarnings,
  MANUAL,
  OTHER,
  OTHER_OPTION,
  REASON_OPTIONS,
  UNSUBSCRIBE,
} from './suppressions/reasons.ts'

interface RemoveDialogProps {
  readonly address: string
  onClose(message?: string): void
}

function RemoveDialog({ address, onClose }: RemoveDialogProps) {
  const suppressions = useData(read.suppressions.list({ email: address, per_page: 100 }), { staleTime: 0 })
  const remove = useChange(api.suppressions.delete, 'suppressions')
  const rows = suppressions.data ?? []
  const warnings = listWarnings(rows)
  const name = isErased(address) ? 'an erased person' : address
  return (
    <DialogFrame
      title="Send mail to this address again?"
      confirm="Remove from the list"
      isDangerous={warnings.length > 0}
      work={{ isPending: remove.isPending, error: remove.error ?? suppressions.error }}
      isIncomplete={suppressions.data === undefined}
      onConfirm={() => remove.mutate(address, { onSuccess: () => onClose(`Mail to ${name} is sent again.`) })}
      onClose={() => onClose()}
    >
      <Text fw={600}>
        <bdi>{name}</bdi>
      </Text>
      {suppressions.isPending ? (
        <LoadingState rows={1} />
      ) : (
        <>
          <Text>{rows.length === 1 ? 'This is removed:' : 'All suppressions of the address are removed:'}</Text>
          <List size="sm">
            {rows.map((row) => (
              <List.Item key={row.id}>
                <bdi>{findReason(row.reason)?.word ?? row.reason}</bdi>: {describeScope(row)}
              </List.Item>
            ))}
          </List>
        </>
      )}
      {warnings.map((warning) => (
        <Alert key={warning} color="yellow" title="Are you sure?">
          {warning}
        </Alert>
      ))}
      <Text size="sm">Contacts that were stopped by this become active again.</Text>
    </DialogFrame>
  )
}

const route = getRouteApi('/suppressions')

export default function SuppressionsScreen() {
  const { cursor, ...filters } = route.useSearch()
  const navigate = route.useNavigate()
  const query = usePage(read.suppressions.list({ ...filters, cursor }))
  const [dialog, setDialog] = useState<
    { readonly kind: 'add' } | { readonly kind: 'remove'; readonly address: string }
  >()
  const [done, setDone] = useState<string>()
  const reason = useAllowed('developer')
  const hasFilters = filters.email !== undefined || filters.reason !== undefined
  const list = useLiveRows(query, JSON.stringify({ ...filters, cursor }), ({ created_at: at }) => at)
  useReadAgainAfter(query, ({ event_type: type }) => ADDS_ROWS.includes(type))
  const isEmpty = list.page?.data.length === 0 && !cursor && !hasFilters
  const close = (message?: string) => {
    setDialog(undefined)
    if (message === undefined) return
    setDone(message)
    void list.reload()
  }
  const add = (
    <ActionButton reason={reason} onClick={() => setDialog({ kind: 'add' })}>
      Suppress an address
    </ActionButton>
  )
  return (
    <Page title="Suppressions" action={isEmpty ? undefined : add}>
      <Stack gap="xs">
        <Done message={done} />
        {!isEmpty && (
          <>
            <FilterForm filters={filters} onChange={(next) => void navigate({ search: next })} />
            <Group gap="md">
              <SmallLink to="/suppressions/import">Import</SmallLink>
              <Anchor href={read.suppressions.export().url} download="suppressions.csv" size="sm">
                Export all as CSV
              </Anchor>
            </Group>
          </>
        )}
      </Stack>
      <LiveView query={query} list={list} isNewest={!cursor} empty={isEmpty ? <Nothing add={add} /> : undefined}>
        {({ data, pagination }) => (
          <>
            {data.length === 0 ? (
              <NoMatch filters={filters} onClear={() => void navigate({ search: {} })} />
            ) : (
              <SuppressionTable
                rows={data}
                reason={reason}
                onRemove={(address) => setDialog({ kind: 'remove', address })}
              />
            )}
            <CursorPages
              next={pagination.next_cursor}
              summary={formatCount(pagination.total, 'suppression')}
              isByTime
            />
          </>
        )}
      </LiveView>
      {dialog?.kind === 'add' && <AddDialog onClose={close} />}
      {dialog?.kind === 'remove' && <RemoveDialog address={dialog.address} onClose={close} />}
    </Page>
  )
}

const Nothing = ({ add }: { readonly add: ReactNode }) => (
  <EmptyState title="Addresses that get no mail will appear here">
    <Text maw={640}>
      An address is added when a server says that its mailbox does not exist, when its owner reports an email as spam or
      unsubscribes, or when you add it. Mail to it is then rejected before it is sent, so that your other mail keeps its
      good reputation.
    </Text>
    {add}
    <Text>
      Do you come from another service?{' '}
      <TextLink to="/suppressions/import" underline="always">
        Import its list
      </TextLink>
      , so that nobody who left gets mail again.
    </Text>
    <Text size="sm">
      On the server: <Code>tassis suppressions import list.csv</Code>
    </Text>
  </EmptyState>
)

function NoMatch({ filters, onClear }: { readonly filters: SuppressionFilters; onClear(): void }) {
  const isAddressOnly = filters.email !== undefined && filters.reason === undefined
  return (
    <EmptyState title={isAddressOnly ? 'This address is not suppressed' : 'No suppression matches these filters'}>
      <Text>
        {isAddressOnly
          ? 'Mail to it is sent. The search takes a whole address, in any spelling.'
          : 'An address is searched as a whole, in any spelling; a reason is compared exactly.'}
      </Text>
      <Button variant="default" onClick={onClear}>
        Remove the filters
      </Button>
    </EmptyState>
  )
}

interface FilterFormProps {
  readonly filters: SuppressionFilters
  onChange(filters: SuppressionFilters): void
}

/** The fields as the filters have them. */
function toFields({ email = '', reason = '' }: SuppressionFilters) {
  const isOwn = reason !== '' && findReason(reason) === undefined
  return { email, choice: isOwn ? OTHER : reason, ownReason: isOwn ? reason : '' }
}

function FilterForm({ filters, onChange }: FilterFormProps) {
  const [fields, setFields] = useState(() => toFields(filters))
  const { email: filteredEmail, reason: filteredReason } = filters
  // The browser's way back changes the filters, too.
  useEffect(
    () =>
      setFields(
        toFields({ ...(filteredEmail && { email: filteredEmail }), ...(filteredReason && { reason: filteredReason }) }),
      ),
    [filteredEmail, filteredReason],
  )
  const { email, choice, ownReason } = fields
  const set = (changed: Partial<typeof fields>) => setFields((before) => ({ ...before, ...changed }))
  const submit = () => onChange(parseSuppressionFilters({ email, reason: choice === OTHER ? ownReason : choice }))
  return (
    <Form isRow onSubmit={submit} aria-label="Filters">
      <TextInput
        {...SEARCH_MARK}
        label="Address"
        type="search"
        inputMode="email"
        placeholder="bob@example.com"
        {...bindText(email, (value) => set({ email: value }))}
        flex="1 1 14rem"
        autoComplete="off"
        spellCheck={false}
      />
      <NativeSelect
        label="Reason"
        {...bindText(choice, (value) => set({ choice: value }))}
        data={[{ value: '', label: 'Any' }, ...REASON_OPTIONS, OTHER_OPTION]}
      />
      {choice === OTHER && (
        <TextInput label="Text of the reason" {...bindText(ownReason, (value) => set({ ownReason: value }))} />
      )}
      <Button type="submit">Search</Button>
      {(filters.email !== undefined || filters.reason !== undefined) && (
        <Button variant="default" onClick={() => onChange({})}>
          Remove the filters
        </Button>
      )}
    </Form>
  )
}

const ADDS_ROWS: readonly string[] = ['bounced', 'complained', 'unsubscribed']

interface TableProps {
  readonly rows: readonly Suppression[]
  readonly reason: string | undefined
  onRemove(address: string): void
}

function SuppressionTable({ rows, reason, onRemove }: TableProps) {
  const columns: readonly Column<Suppression>[] = [
    { header: 'Address', width: '30%', cell: ({ email_address: address }) => <Address address={address} /> },
    {
      header: 'Reason',
      cell: (row) => {
        const known = findReason(row.reason)
        return (
          <Stack gap={0}>
            <StatusLabel tone={known?.tone ?? 'neutral'} title={known?.explanation ?? row.reason}>
              <bdi>{known?.word ?? row.reason}</bdi>
            </StatusLabel>
            <Text size="sm">Stops: {describeScope(row)}</Text>
          </Stack>
        )
      },
    },
    {
      header: 'Caused by',
      width: '13%',
      cell: ({ source_email_id: id }) =>
        id === null ? (
          '–'
        ) : (
          <SmallLink to="/emails/$id" params={{ id }}>
            Email
          </SmallLink>
        ),
    },
    { header: 'When', width: '15%', cell: ({ created_at: at }) => <Time iso={at} /> },
    {
      header: 'Action',
      width: '13%',
      cell: ({ email_address: address }) => (
        <SmallAction
          size="compact-sm"
          reason={reason}
          onClick={() => onRemove(address)}
          aria-label={`Remove ${isErased(address) ? 'an erased person' : address}`}
        >
          Remove
        </SmallAction>
      ),
    },
  ]
  return <DataTable label="Suppressions, newest first" columns={columns} rows={rows} toKey={({ id }) => id} />
}

const Address = ({ address }: { readonly address: string }) =>
  isErased(address) ? (
    <Text size="sm" title={address}>
      Erased person
    </Text>
  ) : (
    <SmallLink to="/emails" search={{ to: address }} title={`Emails to ${address}`}>
      <bdi>{address}</bdi>
    </SmallLink>
  )

interface AddDialogProps {
  onClose(message?: string): void
}

function AddDialog({ onClose }: AddDialogProps) {
  const [choice, setChoice] = useState(MANUAL)
  const add = useChange(api.suppressions.create, 'suppressions')
  const { values, field, fields } = useFields({ email_address: '', reason: '' }, add.error)
  const address = values.email_address.trim()
  const reason = choice === OTHER ? values.reason.trim() : choice
  return (
    <DialogFrame
      title="Suppress an address"
      confirm="Suppress"
      work={add}
      fields={fields}
      isIncomplete={address === '' || reason === ''}
      onConfirm={() =>
        add.mutate(
          { email_address: address, reason },
          { onSuccess: ({ data }) => onClose(`${data.email_address} is on the suppression list.`) },
        )
      }
      onClose={() => onClose()}
    >
      <TextInput
        {...field('email_address')}
        label="Address"
        placeholder="bob@example.com"
        inputMode="email"
        {...CODE_INPUT}
        data-autofocus
      />
      <NativeSelect label="Reason" {...bindText(choice, setChoice)} data={[...REASON_OPTIONS, OTHER_OPTION]} />
      {choice === OTHER && (
        <TextInput {...field('reason')} label="Text of the reason" placeholder="asked by phone" maxLength={200} />
      )}
      <Text size="sm">
        {choice === UNSUBSCRIBE
          ? 'Stops only mail that is not transactional; receipts and new passwords still arrive.'
          : 'Stops all mail of this account to the address, until you remove it from the list.'}{' '}
        If it is on the list already, its reason stays.
      </Text>
    </DialogFrame>
  )
}
