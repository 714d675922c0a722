/** @module Everything that the account stores of one address: to hand it out, or to erase it. */
import { Alert, Code, Group, List, Text, TextInput } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { Operation } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { download } from '../../api/download.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton, CODE_INPUT, DialogFrame, Form, FormError, findFieldError } from '../../parts/form.tsx'
import { useOperation } from '../../parts/operation.ts'
import { QueryView } from '../../parts/page.tsx'

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
      <Alert color="green" title="The person is erased">
        {rows === 1 ? '1 record was' : `${rows.toLocaleString()} records were`} removed or emptied.
      </Alert>
    )
  if (status === 'failed')
    return (
      <Alert color="red" title="The erasure failed">
        {error?.message}
      </Alert>
    )
  return (
    <Alert color="blue" title="The person is being erased">
      <Text size="sm">
        {rows.toLocaleString()} records so far. It continues when you leave this page, whose address shows it again. It
        waits for deliveries and imports that are in progress. Operation: <Code>{id}</Code>
      </Text>
    </Alert>
  )
}

function countRows(metadata: unknown): number {
  const { rows_deleted: rows } = Object(metadata) as { readonly rows_deleted?: unknown }
  return typeof rows === 'number' ? rows : 0
}

/** What the buttons do needs an address. */
const NO_ADDRESS = 'Enter an address first.'

export function PersonData() {
  const roleReason = useAllowed('admin')
  const [text, setText] = useState('')
  const email = text.trim()
  const [isErasing, setIsErasing] = useState(false)
  const { operation } = useSearch({ from: '/settings/privacy' })
  const navigate = useNavigate()
  const save = useChange(() => download(read.gdpr.export({ email }).url))
  const erase = useChange((address: string) => api.gdpr.erase({ email: address }))
  const reason = roleReason ?? (email === '' ? NO_ADDRESS : undefined)
  const error = save.error ?? erase.error
  return (
    <>
      <Text size="sm" maw={640}>
        The export is one JSON file with the emails to an address, their contents and events, its suppressions and
        contacts, and received mail. Other recipients are left out, so you can hand it to the person.
      </Text>
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
          description="In any spelling that means the same."
          value={text}
          onChange={(event) => {
            save.reset()
            erase.reset()
            setText(event.currentTarget.value)
          }}
          error={findFieldError(error, 'email')}
          inputMode="email"
          {...CODE_INPUT}
        />
        <Group gap="xs">
          <ActionButton
            variant="default"
            reason={reason}
            loading={save.isPending}
            onClick={() => save.mutate(undefined)}
          >
            Download person.json
          </ActionButton>
          <ActionButton variant="default" reason={reason} onClick={() => setIsErasing(true)}>
            Erase this person
          </ActionButton>
        </Group>
      </Form>
      <Text size="sm" role="status">
        {save.isSuccess && 'The download has begun. The browser shows its progress.'}
      </Text>
      <FormError error={error} fields={['email']} />
      {operation !== undefined && <ErasureProgress key={operation} operationId={operation} />}
      {isErasing && (
        <DialogFrame
          title="Erase this person?"
          confirm="Erase"
          isDangerous
          work={erase}
          typed={email}
          onConfirm={() =>
            erase.mutate(email, {
              onSuccess: (result) => {
                void navigate({ to: '/settings/privacy', search: { operation: result.operation_id } as never })
                setIsErasing(false)
                setText('')
              },
            })
          }
          onClose={() => setIsErasing(false)}
        >
          <ErasureConsequences email={email} />
        </DialogFrame>
      )}
    </>
  )
}

const ErasureConsequences = ({ email }: { readonly email: string }) => (
  <>
    <Alert color="red" title="This cannot be undone">
      Everything that the account stores of <bdi>{email}</bdi> is erased.
    </Alert>
    <List size="sm">
      <List.Item>Mail that waits for the address is cancelled.</List.Item>
      <List.Item>Emails to it stay as empty records, so that counts and quota stay right.</List.Item>
      <List.Item>Events lose their data. Contacts, received mail and captures are deleted.</List.Item>
      <List.Item>Entries of the audit log that name the address lose their personal fields.</List.Item>
      <List.Item>A suppression stays, as a keyed hash: the address gets no mail by mistake.</List.Item>
    </List>
  </>
)
