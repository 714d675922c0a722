/** @module One contact of a list: its state in words, its metadata, and its removal. */
import { Group, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { Contact, UpdateContactRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { RunButton } from '../parts/buttons.tsx'
import { CopyText } from '../parts/copy.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { ButtonLink } from '../parts/links.tsx'
import { Facts, RecordPage, Section } from '../parts/page.tsx'
import { StateLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { CONTACT_STATES } from './filters.ts'

const route = getRouteApi('/audience/lists/$id/contacts/$email')

export default function AudienceContactScreen() {
  const { id, email } = route.useParams()
  const query = useData(read.contactLists.getContact(id, email))
  const list = useData(read.contactLists.get(id))
  return (
    <RecordPage
      title={query.data?.email ?? email}
      list={{ to: '/audience/lists/$id', params: { id } }}
      listName={<bdi>{list.data?.name ?? 'The list'}</bdi>}
      query={query}
      status={query.data && <StateLabel state={CONTACT_STATES[query.data.status]} />}
      description={query.data && CONTACT_STATES[query.data.status].title}
    >
      {(contact) => <ContactView key={contact.id} contact={contact} />}
    </RecordPage>
  )
}

const ContactView = ({ contact }: { readonly contact: Contact }) => (
  <>
    <Group gap="xs">
      <ButtonLink size="xs" variant="default" to="/people/$address" params={{ address: contact.email }}>
        All about this person
      </ButtonLink>
      {contact.status === 'pending' && (
        <RunButton
          label="Send the confirmation again"
          size="xs"
          variant="default"
          needs="developer"
          refreshes={['contactLists']}
          run={() => api.contactLists.resendConfirmation(contact.list_id, contact.email)}
          done="The confirmation request is on its way."
        />
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
        leadsTo={{ to: '/audience/lists/$id', params: { id: contact.list_id } }}
      >
        <Text>
          <bdi>{contact.email}</bdi> and its metadata are removed from this list. If it unsubscribed, it stays on the
          suppression list.
        </Text>
      </DeleteButton>
    </Group>
    <MetadataForm contact={contact} />
    <Section title="Details">
      <Facts
        facts={[
          ['Added', <Time key="added" iso={contact.created_at} />],
          ['Subscribed', <Time key="subscribed" iso={contact.subscribed_at} />],
          ['Confirmed', contact.confirmed_at && <Time iso={contact.confirmed_at} />],
          ['Left', contact.unsubscribed_at && <Time iso={contact.unsubscribed_at} />],
          ['Welcome email', contact.welcome_email_sent_at && <Time iso={contact.welcome_email_sent_at} />],
          ['Id', <CopyText key="id" value={contact.id} what="id" />],
        ]}
      />
    </Section>
  </>
)

const MetadataForm = ({ contact }: { readonly contact: Contact }) => (
  <Section title="Metadata">
    <FieldForm
      maw={720}
      gap="sm"
      needs="developer"
      done="The metadata was saved."
      stored={contact}
      refreshes={['contactLists']}
      run={(body: UpdateContactRequest) => api.contactLists.updateContact(contact.list_id, contact.email, body)}
      fields={[
        {
          name: 'metadata',
          label: 'JSON object',
          kind: 'json',
          hint: 'Templates read its entries as contact, such as {{ contact.first_name }}.',
          rows: [4, 24],
        },
      ]}
    />
  </Section>
)
