// From the address of a report to the report: a navigation sends no token, so this page gets a
// ticket, which is good for one. Loading a report again leads here again.

import { enter, post, sentence } from "./access.js";
import { byId, setText } from "./dom.js";

const run = new URLSearchParams(location.search).get("run") ?? "";
await enter();
try {
  const answer = await post(`/api/ticket?${new URLSearchParams({ run })}`, {});
  if (answer.ok) {
    const { ticket } = await answer.json();
    location.replace(`/report?${new URLSearchParams({ run, ticket })}`);
  } else {
    setText(byId("about"), await sentence(answer));
  }
} catch {
  setText(byId("about"), "The server does not answer. Is `timeloom serve` still running?");
}
