/**
 * @module The fields of the interface's own answers, by route. A client of the interface may refuse any other field, so
 * every other field of these answers is marked in its schema, and is cut for strict clients. Fields below one that is
 * listed here without fields of its own are free-form.
 */

type Fields = readonly string[]

const words = (text: string): Fields => text.trim().split(/\s+/)
const below = (name: string, fields: Fields): Fields => [name, ...fields.map((field) => `${name}.${field}`)]
const one = (fields: Fields): Fields => below('data', fields)
const listOf = (name: string, fields: Fields): Fields => [name, ...fields.map((field) => `${name}[].${field}`)]
const page = (fields: Fields): Fields => [
  ...listOf('data', fields),
  ...below('pagination', words('page per_page total total_pages')),
]

const ACCOUNT = words('id name email plan monthly_quota emails_sent_this_month quota_reset_at created_at')

const API_KEY = words('id name key_prefix scopes is_active last_used_at created_at')

const EMAIL_ROW = words(`
  id account_id message_id from_address to_address cc bcc subject tags status attempts max_attempts
  suppress_list_management_header created_at updated_at attachments delivery_started_at domain_id error_message headers
  idempotency_key metadata next_retry_at operation_id reply_to scheduled_at sending_ip sent_at smtp_response stream_id
  template_data template_id tracking_override`)

const EVENT = words(`
  id email_id account_id event_type created_at bounce_category bounce_type diagnostic_code ip_address link_url remote_mta
  user_agent raw_payload`)

const EMAIL_BODIES = [...EMAIL_ROW, ...words('html_body text_body')]

const EMAIL = [...EMAIL_BODIES, ...below('email', EMAIL_BODIES), ...listOf('events', EVENT)]

const SEND = words('id message_id status to sandbox created_at scheduled_at')

const DOMAIN = words(`
  id account_id domain dkim_selector sending_subdomain spf_verified dkim_verified dmarc_verified return_path_verified
  mx_verified inbound_enabled tracking_domain_verified dns_records created_at updated_at dkim_public_key mx_verified_at
  tracking_domain_verified_at verified_at tracking_domain`)

const CHECKS = ['spf', 'dkim', 'dmarc', 'return_path', 'mx'].flatMap((name) => below(name, words('verified detail')))

const TEMPLATE = words('id account_id alias name subject html_body text_body created_at updated_at')

const WEBHOOK = words(`
  id account_id url events is_active failure_count created_at updated_at last_failure_at last_failure_reason
  last_success_at`)

const SUPPRESSION = words('id account_id email_address reason created_at source_email_id')

const CONTACT_LIST = words(`
  id account_id name double_opt_in welcome_email_enabled welcome_email_delay_seconds created_at updated_at description
  welcome_email_from_address welcome_email_html_body welcome_email_subject welcome_email_text_body
  welcome_email_template_id contact_count`)

const CONTACT = words(`
  id account_id list_id email metadata status subscribed_at created_at unsubscribed_at welcome_email_sent_at`)

const SIGNUP_FORM = [
  ...words(`
  id account_id list_id slug title custom_fields is_active created_at updated_at description from_address redirect_url
  success_message form_url embed_code`),
  ...below(
    'theme',
    words(`bg_color text_color button_color button_text_color border_color accent_color border_radius font_family embed
    hide_branding`),
  ),
  ...below(
    'messages',
    words(`submit_button email_label email_placeholder submitting already_subscribed confirmation_sent
    confirmation_pending invalid_email error`),
  ),
]

const INBOUND = words(`
  id account_id domain_id mail_from rcpt_to size_bytes status created_at updated_at attachments raw_headers cc_header
  from_header to_header subject html_body text_body message_id error_message source_ip spf_result route_id
  webhook_delivered_at from_address to_addresses raw_size`)

const AUDIT = words('id actor_type actor_id action created_at account_id ip_address resource_id resource_type metadata')

const VALIDATION = words('email valid deliverable is_disposable is_role is_free mx_found reason')

const OPERATION = words(`
  id account_id operation_type status total_items completed_items failed_items error_summary metadata created_at
  updated_at completed_at expires_at`)

const DEAD_LETTER = words(`
  stream_id original_stream email_id account_id failure_reason attempt_count last_error failed_at payload id
  from_address to_address subject error_message original_status attempts created_at`)

const PLAN = words(`
  plan monthly_quota max_domains max_templates max_webhooks max_contact_lists max_sub_accounts tracking_enabled
  price_cents stripe_price_id`)

const SUBSCRIPTION = [
  ...words(`
  plan subscription_status stripe_subscription_id billing_email trial_ends_at monthly_quota emails_sent_this_month`),
  ...below('limits', words('max_domains max_templates max_webhooks tracking_enabled price_cents')),
]

const PERIOD = below('period', words('from to period'))

const OVERVIEW = words(`
  sent delivered bounced opens clicks complaints delivery_rate open_rate click_rate total_sent total_delivered
  total_bounced total_opens total_clicks total_unsubscribes delivery_rate_pct open_rate_pct click_rate_pct
  bounce_rate_pct`)

const INSIGHT = [
  ...words(`
  id account_id generated_at period_start period_end model input_tokens output_tokens summary raw_markdown
  acknowledged_at`),
  ...listOf('findings', words('severity area observation recommendation')),
]

const MAILBOX = words('id account_id local_part domain address display_name created_at')

const MAILBOX_MESSAGE = words(`
  id mailbox_id account_id message_id mail_from from_header reply_to subject text_body html_body size_bytes thread_id
  labels read_at created_at`)

const AUTO_RESPONDER = words('auto_responder_enabled auto_responder_rules')

const INBOUND_ROUTE = words(`
  id account_id domain_id pattern match_type priority webhook_url is_active created_at updated_at`)

const NEWSLETTER = words(`
  id account_id list_id subject from_address html_body text_body template_id template_data reply_to status operation_id
  scheduled_at sent_at total_recipients created_at updated_at`)

const SUB_ACCOUNT = words(`
  id name email plan monthly_quota emails_sent_this_month parent_account_id is_active created_at`)

const BULK_SEND = words('operation_id total_recipients message')

const NULLABLE_EMAIL_FIELDS = words(`
  attachments delivery_started_at domain_id error_message html_body idempotency_key next_retry_at operation_id reply_to
  scheduled_at sending_ip sent_at smtp_response stream_id template_id text_body tracking_override`)

const NULLABLE_DOMAIN_FIELDS = words(`
  dkim_public_key mx_verified_at tracking_domain tracking_domain_verified_at verified_at`)

/**
 * The fields that may be null, by the first name of the path. All others have a value of their type, because typed
 * clients read one: a price is 0, a subscription_status `none`, headers and metadata of an email are {}.
 */
export const NULLABLE_FIELDS: Readonly<Record<string, Fields>> = {
  account: [],
  accounts: ['last_used_at'],
  'agent-mailboxes': words('display_name filename html_body message_id read_at reply_to text_body'),
  analytics: [],
  'api-keys': ['last_used_at'],
  'audit-logs': words('account_id ip_address resource_id resource_type'),
  billing: words('billing_email stripe_price_id stripe_subscription_id trial_ends_at'),
  'contact-lists': words(`
    description unsubscribed_at welcome_email_from_address welcome_email_html_body
    welcome_email_subject welcome_email_template_id welcome_email_text_body`),
  'dead-letters': words('error_message payload.scheduled_at payload.stream'),
  domains: [...NULLABLE_DOMAIN_FIELDS, ...NULLABLE_DOMAIN_FIELDS.map((field) => `domain.${field}`)],
  emails: [
    ...NULLABLE_EMAIL_FIELDS,
    ...NULLABLE_EMAIL_FIELDS.map((field) => `email.${field}`),
    ...words('bounce_category bounce_type diagnostic_code ip_address link_url remote_mta user_agent').map(
      (field) => `events.${field}`,
    ),
  ],
  inbound: words(`
    attachments.content_id attachments.filename cc_header error_message from_header html_body message_id raw_headers
    route_id source_ip spf_result text_body to_header webhook_delivered_at`),
  'inbound-routes': ['webhook_url'],
  insights: ['acknowledged_at'],
  newsletters: words(`
    html_body operation_id reply_to scheduled_at sent_at template_id text_body total_recipients`),
  operations: words('completed_at error_summary'),
  'signup-forms': words('description from_address redirect_url success_message'),
  suppressions: ['source_email_id'],
  templates: words('html_body text_body'),
  validate: ['reason'],
  webhooks: words('last_failure_at last_failure_reason last_success_at'),
}

/** By route; routes that answer without a body are left out. */
export const INTERFACE_FIELDS: Readonly<Record<string, Fields>> = {
  'GET /v1/account': one(ACCOUNT),
  'DELETE /v1/account': one(words('message account_id')),
  'GET /v1/api-keys': page(API_KEY),
  'POST /v1/api-keys': one([...API_KEY, 'key']),
  'GET /v1/emails': page(EMAIL_ROW),
  'POST /v1/emails': one(SEND),
  'POST /v1/emails/batch': ['operation_id', ...listOf('data', SEND), ...listOf('errors', words('index error'))],
  'GET /v1/emails/{id}': one(EMAIL),
  'POST /v1/emails/{id}/cancel': one(SEND),
  'GET /v1/emails/{id}/links': page(words('url clicks unique_clicks last_clicked_at')),
  'GET /v1/domains': page(DOMAIN),
  'POST /v1/domains': [...one(DOMAIN), 'warnings'],
  'GET /v1/domains/{id}': one(DOMAIN),
  'PUT /v1/domains/{id}/tracking-domain': [...one(DOMAIN), 'cname_target'],
  'DELETE /v1/domains/{id}/tracking-domain': one(DOMAIN),
  'POST /v1/domains/{id}/verify': one([
    ...DOMAIN,
    ...DOMAIN.map((field) => `domain.${field}`),
    ...below('checks', CHECKS),
    'fully_verified',
  ]),
  'POST /v1/domains/{id}/verify-tracking': [...one(DOMAIN), ...below('tracking_check', words('verified detail'))],
  'GET /v1/templates': page(TEMPLATE),
  'POST /v1/templates': one(TEMPLATE),
  'GET /v1/templates/{id}': one(TEMPLATE),
  'PUT /v1/templates/{id}': one(TEMPLATE),
  'GET /v1/webhooks': page(WEBHOOK),
  'POST /v1/webhooks': one([...WEBHOOK, 'secret']),
  'GET /v1/webhooks/{id}': one(WEBHOOK),
  'PUT /v1/webhooks/{id}': one(WEBHOOK),
  'POST /v1/webhooks/{id}/test': one(words('message payload')),
  'GET /v1/suppressions': page(SUPPRESSION),
  'POST /v1/suppressions': one(SUPPRESSION),
  'GET /v1/contact-lists': page(CONTACT_LIST),
  'POST /v1/contact-lists': one(CONTACT_LIST),
  'GET /v1/contact-lists/{id}': one(CONTACT_LIST),
  'PUT /v1/contact-lists/{id}': one(CONTACT_LIST),
  'GET /v1/contact-lists/{id}/contacts': page(CONTACT),
  'POST /v1/contact-lists/{id}/contacts': [
    ...one([...CONTACT, ...words('inserted total_requested')]),
    ...listOf('errors', words('index error')),
  ],
  'GET /v1/signup-forms': page(SIGNUP_FORM),
  'POST /v1/signup-forms': one(SIGNUP_FORM),
  'GET /v1/signup-forms/{id}': one(SIGNUP_FORM),
  'PUT /v1/signup-forms/{id}': one(SIGNUP_FORM),
  'POST /v1/signup-forms/{id}/toggle': one(SIGNUP_FORM),
  'GET /v1/inbound': page(INBOUND.filter((field) => !/^(raw_headers|html_body|text_body)$/.test(field))),
  'GET /v1/inbound/{id}': one(INBOUND),
  'POST /v1/validate': VALIDATION,
  'GET /v1/analytics/overview': [...one(OVERVIEW), ...PERIOD],
  'GET /v1/analytics/timeseries': [...listOf('data', words('date sent delivered bounced opens clicks')), ...PERIOD],
  'GET /v1/analytics/domains': [
    ...listOf('data', words('domain sent delivered bounced open_rate click_rate')),
    ...PERIOD,
  ],
  'GET /v1/audit-logs': page(AUDIT),
  'GET /v1/billing/plans': page(PLAN),
  'GET /v1/billing/subscription': one(SUBSCRIPTION),
  'GET /v1/dead-letters': [...listOf('data', DEAD_LETTER), 'total'],
  'POST /v1/dead-letters/{id}/retry': ['message'],
  'GET /v1/operations': page(OPERATION),
  'GET /v1/operations/{id}': one(OPERATION),
  'POST /v1/insights/generate': INSIGHT,
  'GET /v1/agent-mailboxes': page(MAILBOX),
  'POST /v1/agent-mailboxes': one(MAILBOX),
  'GET /v1/agent-mailboxes/{id}': one(MAILBOX),
  'GET /v1/agent-mailboxes/{id}/messages': page(MAILBOX_MESSAGE),
  'GET /v1/agent-mailboxes/{id}/messages/next': [...one(MAILBOX_MESSAGE), ...words('lease_token lease_expires_at')],
  'GET /v1/agent-mailboxes/{id}/messages/search': page(MAILBOX_MESSAGE),
  'GET /v1/agent-mailboxes/{id}/messages/{mid}': one(MAILBOX_MESSAGE),
  'PUT /v1/agent-mailboxes/{id}/messages/{mid}/labels': one(MAILBOX_MESSAGE),
  'POST /v1/agent-mailboxes/{id}/messages/{mid}/reply': one(words('id status message_id to subject')),
  'GET /v1/agent-mailboxes/{id}/messages/{mid}/attachments': page(
    words('filename content_type size url expires_in_seconds'),
  ),
  'GET /v1/agent-mailboxes/{id}/threads': page(MAILBOX_MESSAGE),
  'GET /v1/agent-mailboxes/{id}/threads/{tid}': page(MAILBOX_MESSAGE),
  'GET /v1/agent-mailboxes/{id}/contacts': page(words('email display_name message_count last_seen')),
  'GET /v1/agent-mailboxes/{id}/analytics': one(
    words('total_messages unread_messages total_threads messages_today messages_this_week'),
  ),
  'GET /v1/agent-mailboxes/{id}/auto-responder': one(AUTO_RESPONDER),
  'PATCH /v1/agent-mailboxes/{id}/auto-responder': one(AUTO_RESPONDER),
  'GET /v1/inbound-routes': page(INBOUND_ROUTE),
  'POST /v1/inbound-routes': one(INBOUND_ROUTE),
  'GET /v1/inbound-routes/{id}': one(INBOUND_ROUTE),
  'PUT /v1/inbound-routes/{id}': one(INBOUND_ROUTE),
  'GET /v1/newsletters': page(NEWSLETTER),
  'POST /v1/newsletters': one(NEWSLETTER),
  'GET /v1/newsletters/{id}': one(NEWSLETTER),
  'PUT /v1/newsletters/{id}': one(NEWSLETTER),
  'POST /v1/newsletters/{id}/send': one(BULK_SEND),
  'POST /v1/emails/broadcast': one(BULK_SEND),
  'GET /v1/accounts': page(SUB_ACCOUNT),
  'POST /v1/accounts': one(SUB_ACCOUNT),
  'GET /v1/accounts/{id}': one(SUB_ACCOUNT),
  'PATCH /v1/accounts/{id}': one(SUB_ACCOUNT),
  'POST /v1/accounts/{id}/api-keys': one([...API_KEY, 'key']),
}
