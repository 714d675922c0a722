/** @module The suppression list: who gets no mail of this account, and why. */
import { Alert, Anchor, Code, Group, List, Stack, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Suppression } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { ConfirmDialog, DialogButton } from '../parts/dialog.tsx'
import { TextLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { EmptyState, LoadingState } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { SUPPRESSION_FILTERS } from './filters.ts'
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

interface DialogProps {
  onDone(): unknown
  onClose(): void
}

function RemoveDialog({ address, ...dialog }: DialogProps & { readonly address: string }) {
  const suppressions = useData(read.suppressions.list({ email: address, per_page: 100 }), { staleTime: 0 })
  const rows = suppressions.data ?? []
  const warnings = listWarnings(rows)
  const name = isErased(address) ? 'an erased person' : address
  return (
    <ConfirmDialog
      title="Send mail to this address again?"
      confirm="Remove from the list"
      isDangerous={warnings.length > 0}
      error={suppressions.error}
      isIncomplete={suppressions.data === undefined}
      refreshes={['suppressions']}
      run={() => api.suppressions.delete(address)}
      done={`Mail to ${name} is sent again.`}
      {...dialog}
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
    </ConfirmDialog>
  )
}

export default function SuppressionsScreen() {
  const reason = useAllowed('developer')
  const removeReason = useAllowed('support')
  const list = useList({
    read: read.suppressions.list,
    filters: SUPPRESSION_FILTERS,
    isSteady: true,
    isConcerned: ({ event_type: type }) => ADDS_ROWS.includes(type),
  })
  const reload = () => void list.reload()
  const add = (
    <DialogButton label="Suppress an address" reason={reason}>
      {(close) => <AddDialog onDone={reload} onClose={close} />}
    </DialogButton>
  )
  return (
    <ListScreen
      title="Suppressions"
      list={list}
      label="Suppressions, newest first"
      columns={toColumns(removeReason, reload)}
      noun="suppression"
      action={add}
      above={
        list.isEmpty ? null : (
          <Group gap="md">
            <TextLink to="/suppressions/import">Import</TextLink>
            <Anchor href={read.suppressions.export().url} download="suppressions.csv" size="sm">
              Export all as CSV
            </Anchor>
          </Group>
        )
      }
      empty={<Nothing add={add} />}
      advice="An address is searched as a whole, in any spelling. One that is not found here is not suppressed: mail to it is sent."
    />
  )
}

const Nothing = ({ add }: { readonly add: ReactNode }) => (
  <EmptyState
    title="Addresses that get no mail will appear here"
    text="An address is added when a server says that its mailbox does not exist, when its owner reports an email as spam or unsubscribes, or when you add it. Mail to it is then rejected before it is sent, so that your other mail keeps its good reputation."
  >
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

const ADDS_ROWS: readonly string[] = ['bounced', 'complained', 'unsubscribed']

const toColumns = (reason: string | undefined, onRemoved: () => void): readonly Column<Suppression>[] => [
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
        <TextLink to="/emails/$id" params={{ id }}>
          Email
        </TextLink>
      ),
  },
  { header: 'When', width: '15%', cell: ({ created_at: at }) => <Time iso={at} /> },
  {
    header: 'Action',
    width: '13%',
    cell: ({ email_address: address }) => (
      <DialogButton
        label="Remove"
        size="compact-sm"
        variant="default"
        reason={reason}
        aria-label={`Remove ${isErased(address) ? 'an erased person' : address}`}
      >
        {(close) => <RemoveDialog address={address} onDone={onRemoved} onClose={close} />}
      </DialogButton>
    ),
  },
]

const Address = ({ address }: { readonly address: string }) =>
  isErased(address) ? (
    <Text size="sm" title={address}>
      Erased person
    </Text>
  ) : (
    <TextLink to="/emails" search={{ to: address }} title={`Emails to ${address}`}>
      <bdi>{address}</bdi>
    </TextLink>
  )

interface NewSuppression {
  readonly email_address: string
  readonly reason: string
  readonly text?: string
}

const AddDialog = (dialog: DialogProps) => (
  <ConfirmDialog
    title="Suppress an address"
    confirm="Suppress"
    fields={({ reason }) => [
      { name: 'email_address', label: 'Address', kind: 'email', placeholder: 'bob@example.com', isRequired: true },
      { name: 'reason', label: 'Reason', kind: 'choice', options: [...REASON_OPTIONS, OTHER_OPTION] },
      ...(reason === OTHER
        ? [{ name: 'text', label: 'Text of the reason', placeholder: 'asked by phone', isRequired: true } as const]
        : []),
    ]}
    initial={{ reason: MANUAL }}
    refreshes={['suppressions']}
    run={({ text, ...body }: NewSuppression) => api.suppressions.create({ ...body, ...(text && { reason: text }) })}
    done={({ data }) => `${data.email_address} is on the suppression list.`}
    footer={({ values }) => (
      <Text size="sm">
        {values['reason'] === UNSUBSCRIBE
          ? 'Stops only mail that is not transactional; receipts and new passwords still arrive.'
          : 'Stops all mail of this account to the address, until you remove it from the list.'}{' '}
        If it is on the list already, its reason stays.
      </Text>
    )}
    {...dialog}
  />
)
