/** @module One contact of a list: its state in words, its metadata, and its removal. */
import { Button, Group, Paper, Stack, Text, Textarea } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Contact } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { DeleteButton, Form, FormError, findFieldError, SmallAction, SubmitButton } from '../parts/form.tsx'
import { Done, Facts, RecordPage, Section } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { CONTACT_STATES, parseMetadataText, toMetadataText } from './audience/contact-search.ts'
import { ContactStatusLabel } from './audience/parts.tsx'
import { useContactChange } from './audience/queries.ts'

const route = getRouteApi('/audience/lists/$id/contacts/$email')

export default function AudienceContactScreen() {
  const { id, email } = route.useParams()
  const query = useData(read.contactLists.getContact(id, email))
  const list = useData(read.contactLists.get(id))
  return (
    <RecordPage
      title={query.data?.email ?? email}
      list={`/audience/lists/${id}`}
      listName={<bdi>{list.data?.name ?? 'The list'}</bdi>}
      query={query}
      missing="This list has no contact with this address. It may have been removed."
    >
      {(contact) => <ContactView key={contact.id} contact={contact} />}
    </RecordPage>
  )
}

function ContactView({ contact }: { readonly contact: Contact }) {
  const [asked, setAsked] = useState(false)
  const ask = useContactChange(() => api.contactLists.resendConfirmation(contact.list_id, contact.email))
  return (
    <Stack gap="lg">
      <Paper withBorder p="md">
        <Stack gap="xs" align="flex-start">
          <ContactStatusLabel status={contact.status} />
          <Text>{CONTACT_STATES[contact.status].meaning}</Text>
          <Group gap="xs">
            <Button
              size="xs"
              variant="default"
              component={Link}
              {...({ to: '/emails', search: { to: contact.email } } as object)}
            >
              Emails to this address
            </Button>
            {contact.status === 'pending' && (
              <SmallAction
                needs="developer"
                loading={ask.isPending}
                onClick={() => ask.mutate(undefined, { onSuccess: () => setAsked(true) })}
              >
                Send the confirmation again
              </SmallAction>
            )}
            <DeleteButton
              label="Remove from the list"
              size="xs"
              title="Remove this contact?"
              confirm="Remove"
              remove={() => api.contactLists.deleteContact(contact.list_id, contact.email)}
              refreshes={[
                ['contactLists', 'list'],
                ['contactLists', 'get'],
              ]}
              leadsTo={`/audience/lists/${contact.list_id}`}
            >
              <Text>
                <bdi>{contact.email}</bdi> and its metadata are removed from this list. If it unsubscribed, its address
                stays on the suppression list.
              </Text>
            </DeleteButton>
          </Group>
          <Done message={asked ? 'The confirmation request is on its way.' : undefined} />
          <FormError error={ask.error} />
        </Stack>
      </Paper>
      <MetadataForm contact={contact} />
      <Section title="Details">
        <Facts
          facts={[
            ['Added', <Time key="added" iso={contact.created_at} isExact />],
            ['Subscribed', <Time key="subscribed" iso={contact.subscribed_at} isExact />],
            ['Confirmed', contact.confirmed_at && <Time iso={contact.confirmed_at} isExact />],
            ['Left', contact.unsubscribed_at && <Time iso={contact.unsubscribed_at} isExact />],
            ['Welcome email', contact.welcome_email_sent_at && <Time iso={contact.welcome_email_sent_at} isExact />],
            ['Id', contact.id],
          ]}
        />
      </Section>
    </Stack>
  )
}

function MetadataForm({ contact }: { readonly contact: Contact }) {
  const [text, setText] = useState(toMetadataText(contact.metadata))
  const [problem, setProblem] = useState<string>()
  const [isSaved, setIsSaved] = useState(false)
  const reason = useAllowed('developer')
  const save = useContactChange((metadata: Readonly<Record<string, unknown>>) =>
    api.contactLists.updateContact(contact.list_id, contact.email, { metadata }),
  )
  const submit = () => {
    const parsed = parseMetadataText(text)
    setProblem('problem' in parsed ? parsed.problem : undefined)
    setIsSaved(false)
    if ('metadata' in parsed && reason === undefined)
      save.mutate(parsed.metadata, { onSuccess: () => setIsSaved(true) })
  }
  const fieldError = problem ?? findFieldError(save.error, 'metadata')
  return (
    <Section title="Metadata">
      <Form onSubmit={submit} gap="sm" align="flex-start">
        <Textarea
          w="100%"
          maw={720}
          label="A JSON object"
          description="Templates read its entries as contact, such as {{ contact.first_name }}."
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value)
            setIsSaved(false)
          }}
          readOnly={reason !== undefined}
          error={fieldError}
          autosize
          minRows={4}
          maxRows={24}
          spellCheck={false}
          dir="auto"
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
        <FormError error={save.error} fields={['metadata']} />
        <Done message={isSaved ? 'The metadata was saved.' : undefined} />
        <SubmitButton reason={reason} loading={save.isPending}>
          Save
        </SubmitButton>
      </Form>
    </Section>
  )
}
