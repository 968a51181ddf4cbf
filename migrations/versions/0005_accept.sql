-- Events are found by their turn, and within it by their number: that is what tells one from another, and one index
-- less that every move writes. The index was built before, beside whoever writes.
alter table sink.event drop constraint event_pkey;
alter table sink.event add constraint event_pkey primary key using index event_of_turn;
drop index sink.event_turn;
