/** @module Data of one person, the export of the account, and its deletion. */
import { Code, Group, List, Text, TextInput } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { Operation } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { download } from '../../api/download.ts'
import { useAllowed, useSession } from '../../api/session.tsx'
import { ActionButton, SubmitButton } from '../../parts/buttons.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { CODE_INPUT } from '../../parts/fields.ts'
import { bindText, Form, FormError, findFieldError } from '../../parts/form.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { Notice } from '../../parts/status.tsx'
import { useOperation } from '../queries.ts'
import { SettingsPage } from './frame.tsx'

function DeleteAccount() {
  const { account } = useSession()
  return (
    <ConfirmButton
      label="Delete this account"
      needs="owner"
      title="Delete this account?"
      confirm="Delete everything"
      typed={account.name.trim()}
      run={() => api.account.delete({ headers: { 'x-confirm-delete': 'DELETE' } })}
      // The session has ended with the account: this page would only ask to sign in again.
      onDone={() => location.assign('/login')}
    >
      <Notice tone="bad" title="This cannot be undone">
        <bdi>{account.name}</bdi> and all of its data are deleted.
      </Notice>
      <List size="sm">
        <List.Item>API keys and sessions are rejected immediately, for everybody in the team.</List.Item>
        <List.Item>Mail that waits is cancelled. Mail to the domains is rejected.</List.Item>
        <List.Item>
          Domains, templates, contacts, suppressions, emails, received mail and events are deleted, also those of
          sub-accounts.
        </List.Item>
        <List.Item>A subscription at the payment provider ends.</List.Item>
        <List.Item>Users who belong to no other account are deleted.</List.Item>
      </List>
    </ConfirmButton>
  )
}

export default function PrivacyScreen() {
  return (
    <SettingsPage title="Privacy and deletion">
      <Section
        id="person"
        title="Data of one person"
        description="Emails with contents and events, suppressions, contacts and received mail of one address, as one JSON file without other recipients."
      >
        <PersonData />
      </Section>
      <Section
        title="Export of the account"
        description="All of the account as one JSON file, without bodies, attachments and secrets. Once an hour."
      >
        <AccountExport />
      </Section>
      <Section
        title="Delete the account"
        description="With its sub-accounts and everything in them, permanently. Export first what you want to keep."
      >
        <DeleteAccount />
      </Section>
    </SettingsPage>
  )
}

function AccountExport() {
  const start = useChange(() => download(read.account.export().url))
  return (
    <>
      <ActionButton variant="default" needs="admin" loading={start.isPending} onClick={() => start.mutate(undefined)}>
        Download account.json
      </ActionButton>
      <Text size="sm" role="status">
        {start.isSuccess && 'The download has begun. The browser shows its progress.'}
      </Text>
      <FormError error={start.error} />
    </>
  )
}

function ErasureProgress({ operationId }: { readonly operationId: string }) {
  return (
    <div role="status">
      <QueryView query={useOperation(operationId)}>{(operation) => <Progress operation={operation} />}</QueryView>
    </div>
  )
}

function Progress({ operation: { id, status, metadata, error_summary: error } }: { readonly operation: Operation }) {
  const rows = countRows(metadata)
  if (status === 'completed')
    return (
      <Notice tone="good" title="The person is erased">
        {rows === 1 ? '1 record was' : `${rows.toLocaleString()} records were`} removed or emptied.
      </Notice>
    )
  if (status === 'failed')
    return (
      <Notice tone="bad" title="The erasure failed">
        {error?.message}
      </Notice>
    )
  return (
    <Notice tone="active" title="The person is being erased">
      <Text size="sm">
        {rows.toLocaleString()} records so far. It continues when you leave this page, whose address shows it again. It
        waits for deliveries and imports that are in progress. Operation: <Code>{id}</Code>
      </Text>
    </Notice>
  )
}

function countRows(metadata: unknown): number {
  const { rows_deleted: rows } = Object(metadata) as { readonly rows_deleted?: unknown }
  return typeof rows === 'number' ? rows : 0
}

function PersonData() {
  const roleReason = useAllowed('admin')
  const { operation, person = '' } = useSearch({ from: '/settings/privacy' })
  const [email, setEmail] = useState(person)
  const navigate = useNavigate()
  const save = useChange(() => download(read.gdpr.export({ email: email.trim() }).url))
  const reason = roleReason ?? (email.trim() === '' ? 'Enter an address first.' : undefined)
  return (
    <>
      <Form
        onSubmit={() => {
          if (reason === undefined) save.mutate(undefined)
        }}
        aria-labelledby="person"
        gap="sm"
        align="flex-start"
      >
        <TextInput
          w="min(100%, 24rem)"
          label="Address of the person"
          {...bindText(email, (typed) => {
            save.reset()
            setEmail(typed)
          })}
          error={findFieldError(save.error, 'email')}
          inputMode="email"
          {...CODE_INPUT}
        />
        <Group gap="xs">
          <SubmitButton variant="default" reason={reason} loading={save.isPending}>
            Download person.json
          </SubmitButton>
          <ConfirmButton
            label="Erase this person"
            reason={reason}
            title="Erase this person?"
            confirm="Erase"
            typed={email.trim()}
            run={() => api.gdpr.erase({ email: email.trim() })}
            onDone={({ operation_id: id }) => {
              setEmail('')
              return navigate({ to: '/settings/privacy', search: { operation: id } })
            }}
          >
            <ErasureConsequences email={email.trim()} />
          </ConfirmButton>
        </Group>
      </Form>
      <Text size="sm" role="status">
        {save.isSuccess && 'The download has begun. The browser shows its progress.'}
      </Text>
      <FormError error={save.error} fields={['email']} />
      {operation !== undefined && <ErasureProgress key={operation} operationId={operation} />}
    </>
  )
}

const ErasureConsequences = ({ email }: { readonly email: string }) => (
  <>
    <Notice tone="bad" title="This cannot be undone">
      Everything that the account stores of <bdi>{email}</bdi> is erased.
    </Notice>
    <List size="sm">
      <List.Item>Mail that waits for the address is cancelled.</List.Item>
      <List.Item>Emails to it stay as empty records, so that counts and quota stay right.</List.Item>
      <List.Item>Events lose their data. Contacts, received mail and captures are deleted.</List.Item>
      <List.Item>Entries of the audit log that name the address lose their personal fields.</List.Item>
      <List.Item>A suppression stays, as a keyed hash: the address gets no mail by mistake.</List.Item>
    </List>
  </>
)
